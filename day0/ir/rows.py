"""Leading dims that are not numbers: the tokens of a step and what is derived from them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A named leading dim.

    `of` is the Rows it derives from ("" for the step's own tokens), `rule` how ("all", "last",
    "tail:N", "routed", "zigzag"), `bound` the largest count in terms of `of` ("T", "T*8").
    """

    name: str
    of: str = ""
    rule: str = "all"
    bound: str = ""


TOKENS = Rows(name="T")
LAST = Rows(name="R", of="T", rule="last", bound="T")
