"""Ranks: how they form a mesh (no torch), and what they send one another (torch.distributed)."""
