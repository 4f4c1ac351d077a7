"""Numbers and foreign words as people read them."""

LONGEST = 500


def plain(text: str) -> str:
    """A word of a checkpoint, safe for a terminal: what is not printable (escape sequences, halves
    of surrogate pairs, line ends) is spelled out, and no word is longer than a few lines."""
    safe = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return safe if len(safe) <= LONGEST else f"{safe[: LONGEST - 3]}..."


_BYTES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_COUNTS = (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3))


def gib(value: float) -> str:
    """Bytes in GiB, MiB or KiB, the unit spelled out."""
    return _in_units(value, _BYTES) or f"{value:,.0f} B"


def count(value: float) -> str:
    """Parameters or flops: 1.23 T, 48.1 B, 3.0 M."""
    return _in_units(value, _COUNTS) or f"{value:,.0f}"


def _in_units(value: float, units: tuple[tuple[str, int], ...]) -> str:
    """In the largest unit of which there is one; "" where there is none. What rounding would show
    as a thousand of a unit is one of the next: 1.00 M, never 1,000.00 K."""
    below = (*(size for _, size in units[1:]), 0)
    for (unit, size), smaller in zip(units, below, strict=True):
        if value >= size or (smaller and round(value / smaller, 2) * smaller >= size):
            return f"{value / size:,.2f} {unit}"
    return ""


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def spans(numbers: tuple[int, ...] | list[int]) -> str:
    """Layer numbers as ranges: 0-2,4-6."""
    if not numbers:
        return "-"
    parts = []
    start = last = numbers[0]
    for number in (*numbers[1:], None):
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(str(start) if start == last else f"{start}-{last}")
        if number is not None:
            start = last = number
    text = ",".join(parts)
    return text if len(text) <= 28 else f"{text[:24]}... ({len(numbers)})"
