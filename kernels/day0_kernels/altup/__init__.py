"""Alternating updates: streams of which a layer computes one. See README.md."""
