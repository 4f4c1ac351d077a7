"""Executes a lowered Graph: loader, caches, binder, program, engine. The only rooms with torch are
this one and validate."""
