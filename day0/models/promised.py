"""The stored form of a weight as the config alone gives it, where there are no headers to ask."""

from collections.abc import Iterator

from day0.models.quant_config import QuantConfig
from day0.models.stored_look import Dims, Stored, stored

# Components that stand for each other in published names: without headers a mechanism writes one
# spelling, and the quantisation's lists may use another.
SAME = (
    ("block_sparse_moe", "mlp", "ffn", "feed_forward"),
    ("self_attn", "attn", "attention"),
    ("gate_proj", "w1"),
    ("up_proj", "w3"),
    ("down_proj", "w2"),
)


def promised(name: str, dims: Dims, hint: QuantConfig | None, *, dtype: str = "bf16") -> Stored:
    """The form of the weight `name` of logical `dims` ("{e}": any expert), plain in the format
    `dtype` where nothing is promised. A list that keeps it as it was, in whatever spelling, counts
    before the rules."""
    found = None
    if hint is not None and len(dims) > 1:
        names = tuple(spellings(name.replace("{e}", "0")))
        if not any(hint.excluded(spelled) for spelled in names):
            formats = (hint.expected_format(spelled, dims) for spelled in names)
            found = next((one for one in formats if one is not None), None)
    return stored(found or dtype, ("data", name))


def spellings(name: str) -> Iterator[str]:
    """`name`, then the same path in other words."""
    todo = [name.split(".")]
    for words in SAME:
        for parts in tuple(todo):
            at = next((i for i, part in enumerate(parts) if part in words), None)
            if at is not None:
                others = (word for word in words if word != parts[at])
                todo += [[*parts[:at], word, *parts[at + 1 :]] for word in others]
    yield from (".".join(parts) for parts in todo)
