"""Plain data, standard library only: what a model is, before anything runs it."""
