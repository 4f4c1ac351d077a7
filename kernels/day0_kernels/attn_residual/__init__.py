"""Attention over depth by one learned query. See README.md."""
