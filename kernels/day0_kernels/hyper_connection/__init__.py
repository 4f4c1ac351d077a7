"""Hyper-connections: reading and writing m streams. See README.md."""
