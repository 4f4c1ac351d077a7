"""The channels of all ranks of an axis side by side; a ring sends (n-1)/n of the whole from each.

Where there are fewer shares than ranks, `copies` neighbours hold the same one, and the first of
them counts.
"""

from dataclasses import replace

from day0.ir.tensor import TensorSpec
from day0.registry.families.all_reduce import ATTRS, row_bytes
from day0.registry.family import Attr, Family, Impl, Shapes, number


def _whole(shapes: Shapes) -> dict[str, TensorSpec]:
    spec = shapes.inputs["x"]
    width = sum(shapes.attrs["widths"][:: shapes.attrs["copies"]])
    return {"y": replace(spec, dims=(spec.dims[0], width))}


FAMILY = Family(
    name="all_gather",
    rowwise=True,
    what="the channels of all ranks of a mesh axis side by side, on all of them",
    inputs=("x",),
    outputs=("y",),
    # widths: channels of each rank, in the axis' order
    attrs={**ATTRS, "widths": Attr(kinds=(tuple,)), "copies": number(1)},
    infer=_whole,
    flops=lambda s, c: 0.0,
    sends=lambda s: (s.attrs["ranks"] - 1) * row_bytes(s),
    impls=(Impl(backend="library", entry="day0.runtime.exchange:all_gather"),),
)
