"""Multi-head latent attention, expanded and absorbed. See README.md."""
