"""Findings: what a model is, whether the tensors agree, what it costs and what is new in it."""
