"""The next token of each request. See README.md."""
