"""Lightning indexers: the best k tokens or blocks per row. See README.md."""
