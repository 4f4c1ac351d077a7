"""Lightning attention: a fixed decay per head. See README.md."""
