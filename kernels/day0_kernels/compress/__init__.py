"""Pools of consecutive tokens as one cache entry. See README.md."""
