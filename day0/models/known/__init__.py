"""What no config states: literal tables, keyed on words, with their sources."""
