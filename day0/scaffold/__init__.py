"""Findings -> files for what is new: operators, mechanisms, and plugins for other engines."""
