"""Grouped-query attention over selected blocks. See README.md."""
