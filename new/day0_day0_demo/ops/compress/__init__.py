"""compress: see README.md."""
