"""Analysis -> JSON and terminal text."""
