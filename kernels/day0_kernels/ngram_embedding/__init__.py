"""Hashed n-gram rows and their gate. See README.md."""
