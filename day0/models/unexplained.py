"""Which parts of a ModelSpec no mechanism explains."""

from dataclasses import dataclass

from day0.mechanisms.spec import ModelSpec
from day0.mechanisms.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """The unknown mixer or ffn (`slot`) of one layer: its modules, each with tensor names below it
    and their stored shapes."""

    layer: int
    slot: str
    modules: tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]


def unexplained(spec: ModelSpec) -> tuple[tuple[Unexplained, ...], tuple[str, ...]]:
    """(parts with tensors to go by; what is unknown without any, in words)."""
    found, left = [], []
    for index, layer in enumerate(spec.layers):
        for sublayer in layer.sublayers:
            for branch in sublayer.branches:
                if not isinstance(branch.spec, Unknown):
                    continue
                if branch.spec.modules:
                    found.append(
                        Unexplained(layer=index, slot=sublayer.name, modules=branch.spec.modules)
                    )
                else:
                    left.append(f"{sublayer.name} of layer {index}: {branch.spec.because}")
    return tuple(found), tuple(left)
