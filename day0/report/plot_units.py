"""Numbers of a plot's axis in words."""

from day0.report.numbers import count, gib


def in_unit(value: float, unit: str) -> str:
    """`unit`: "tokens", "bytes", "count", or any other word, which follows the number."""
    if unit == "bytes":
        return gib(value)
    if unit == "tokens":
        return tokens(value)
    if unit == "count":
        return count(value)
    return f"{value:,.4g} {unit}".rstrip()


def tokens(value: float) -> str:
    """4K, 128K, 1M: powers of two as serving people write them; 96 as it is."""
    for letter, size in (("M", 2**20), ("K", 2**10)):
        if value >= size and value % size == 0:
            return f"{value // size:.0f}{letter}"
    return f"{value:,.0f}"
