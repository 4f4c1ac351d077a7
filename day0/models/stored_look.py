"""What recognition asks and answers: one weight among the headers, and its stored parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from day0.checkpoint.headers import TensorHeader
from day0.ir import format as formats
from day0.models.quant_config import QuantConfig

Dims = tuple[int, ...]
Tensors = Mapping[str, TensorHeader]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A storage format and the stored tensor of each of its parts, "data" first.

    A required part that the headers lack is named all the same: the proof reports that name.
    """

    format: str
    parts: tuple[tuple[str, str], ...]

    @property
    def data(self) -> str:
        """The stored tensor that holds the codes or values."""
        return self.parts[0][1]


class Look(NamedTuple):
    """One question. `stem` is the name without ".weight"; fused experts have none to lose."""

    name: str
    stem: str
    dims: Dims
    tensors: Tensors
    hint: QuantConfig | None

    def expected(self) -> str | None:
        """The format that the config promises for this weight, if any."""
        return self.hint.expected_format(self.name, self.dims) if self.hint else None

    def get(self, suffix: str) -> TensorHeader | None:
        """The tensor called stem + suffix."""
        return self.tensors.get(self.stem + suffix)

    def part(self, part: str, *suffixes: str) -> tuple[tuple[str, str], ...]:
        """The optional part under every one of the suffixes that exists."""
        names = (self.stem + suffix for suffix in suffixes)
        return tuple((part, name) for name in names if name in self.tensors)


def stored(format_name: str, *parts: tuple[str, str]) -> Stored:
    return Stored(format=format_name, parts=parts)


def fits(format_name: str, part: str, dims: Dims, header: TensorHeader | None) -> bool:
    """Whether a stored tensor has a shape that `part` of the format may have for these dims."""
    if header is None or not dims:
        return False
    return formats.get(format_name).part(part).fits(dims, header.shape)
