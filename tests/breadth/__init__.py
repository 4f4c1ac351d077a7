"""Every current decoder-only type of transformers, each as a tiny checkpoint."""
