"""Rotary embedding and all its tables. See README.md."""
