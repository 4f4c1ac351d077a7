"""Numbers and foreign words as people read them."""

LONGEST = 500


def plain(text: str) -> str:
    """A word of a checkpoint, safe for a terminal: what is not printable (escape sequences, halves
    of surrogate pairs, line ends) is spelled out, and no word is longer than a few lines."""
    safe = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return safe if len(safe) <= LONGEST else f"{safe[: LONGEST - 3]}..."


def gib(value: float) -> str:
    """Bytes in GiB, MiB or KiB, the unit spelled out."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:,.2f} {unit}"
    return f"{value:,.0f} B"


def count(value: float) -> str:
    """Parameters or flops: 1.23 T, 48.1 B, 3.0 M."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if value >= size:
            return f"{value / size:,.2f} {unit}"
    return f"{value:,.0f}"


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
