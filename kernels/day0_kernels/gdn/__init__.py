"""Gated delta net: one decay per value head, delta rule. See README.md."""
