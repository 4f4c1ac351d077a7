"""Assembles decoders out of mechanisms: checkpoint -> ModelSpec -> Model."""
