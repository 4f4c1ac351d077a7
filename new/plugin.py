"""For `day0 ... --plugin` with this folder."""

from day0_day0_demo.plugin import register

__all__ = ["register"]
