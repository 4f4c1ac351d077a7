"""Latent attention over selected tokens. See README.md."""
