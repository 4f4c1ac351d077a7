"""Shape and storage format of a tensor or a value."""

from dataclasses import dataclass

Dim = int | str  # a str names a Rows ("T": the step's tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """`dims` outermost first; a str dim names a `Rows`. `format` is a name of ir.format."""

    dims: tuple[Dim, ...]
    format: str = "bf16"

    @property
    def width(self) -> int:
        """Elements per row: the product of the dims that are numbers."""
        total = 1
        for dim in self.dims:
            if isinstance(dim, int):
                total *= dim
        return total
