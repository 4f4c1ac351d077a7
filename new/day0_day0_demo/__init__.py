"""Operators and mechanisms of day0_demo for day0."""

OPS: tuple[str, ...] = ("compress",)
MECHANISMS: tuple[str, ...] = ()
