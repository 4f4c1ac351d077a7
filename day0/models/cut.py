"""--layers N: the first layers of a model alone, for a look at full width without full depth."""

from collections.abc import Iterator
from dataclasses import replace

from day0.errors import Day0Error
from day0.mechanisms.spec import LayerSpec, ModelSpec

# Fields of specs that name the layer whose latents, selection or weights a layer reads.
OWNERS = ("kv_of", "topk_of", "weights_of")


def cut(spec: ModelSpec, layers: int | None) -> ModelSpec:
    """The spec with its first `layers` layers, and further ones where a kept layer reads a later
    one; without drafts, which stand behind the whole trunk. None: the spec as it is.

    What layers were read with (decays that depend on the depth, sizes) stays that of the whole
    model. Day0Error unless 1 <= layers <= the model's.
    """
    if layers is None:
        return spec
    depth = len(spec.layers)
    if not 1 <= layers <= depth:
        raise Day0Error(
            f"--layers is {layers}; it must be 1 to {depth}, the layers of {spec.name or 'MODEL'}",
            hint=f"day0 run MODEL --layers {min(depth, 4)}",
        )
    kept = layers
    while (needed := _reach(spec.layers[:kept])) > kept:
        kept = min(needed, depth)
    return replace(spec, layers=spec.layers[:kept], drafts=())


def _reach(layers: tuple[LayerSpec, ...]) -> int:
    """One more than the highest layer that these read from."""
    return max((owner + 1 for layer in layers for owner in _owners(layer)), default=0)


def _owners(layer: LayerSpec) -> Iterator[int]:
    for sublayer in layer.sublayers:
        for branch in sublayer.branches:
            for name in OWNERS:
                owner = getattr(branch.spec, name, None)
                if isinstance(owner, int):
                    yield owner
