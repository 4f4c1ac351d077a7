"""Builds a Graph op by op; a mechanism's flow reads like a forward pass over it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from day0.ir.cache import CacheSpec
from day0.ir.op import CacheUse, Op
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, Leaf, Stack, Tied, Weight, dims_of
from day0.mechanisms.names import Scope, Spellings
from day0.registry.family import Shapes
from day0.registry.index import family


class Builder:
    """Collects ops, values, weights and caches.

    `plain` is the format of unquantised weights and of activations. Weights and caches may be
    shared by several builders (main graph and drafts).
    """

    def __init__(
        self,
        *,
        plain: str,
        weights: dict[str, Weight] | None = None,
        caches: dict[str, CacheSpec] | None = None,
    ) -> None:
        self.plain = plain
        self.weights: dict[str, Weight] = {} if weights is None else weights
        self.caches: dict[str, CacheSpec] = {} if caches is None else caches
        self.values: dict[str, TensorSpec] = {}
        self.ops: list[Op] = []
        self.layer = -1
        self.path = ""
        self.because: tuple[str, ...] = ()

    @contextmanager
    def at(
        self, path: str, *, layer: int | None = None, because: tuple[str, ...] | None = None
    ) -> Iterator[None]:
        """Within: ids get the prefix `path`, ops the layer number and the facts."""
        before = self.path, self.layer, self.because
        self.path = f"{self.path}{path}." if path else self.path
        self.layer = self.layer if layer is None else layer
        self.because = self.because if because is None else because
        try:
            yield
        finally:
            self.path, self.layer, self.because = before

    def input(self, name: str, spec: TensorSpec) -> str:
        """Declare a graph input."""
        self.values[name] = spec
        return name

    def width(self, value: str) -> int:
        """Channels of a value."""
        return self.values[value].width

    def weight(
        self,
        ident: str,
        source: Expr,
        *,
        role: str,
        home: str = "device",
        padding: tuple[Expr, ...] = (),
        top: bool = False,
    ) -> str:
        """Add a weight under the current path (`top`: without it) and return its name."""
        if isinstance(source, Tied):
            return source.weight
        name = ident if top else self.path + ident
        if name in self.weights:
            raise ValueError(f"weight {name} is defined twice")
        spec = TensorSpec(dims=dims_of(source), format=_format(source))
        self.weights[name] = Weight(
            name=name, spec=spec, role=role, source=source, home=home, padding=padding
        )
        return name

    def cache(self, ident: str, **fields: Any) -> str:
        """Add a cache of the current layer and return its name."""
        name = self.path + ident
        self.caches[name] = CacheSpec(name=name, layer=self.layer, **fields)
        return name

    def op(
        self,
        family_name: str,
        ident: str,
        inputs: Mapping[str, str],
        weights: Mapping[str, str] | None = None,
        caches: Mapping[str, tuple[str, str]] | None = None,
        **attrs: Any,
    ) -> dict[str, str]:
        """Add an op; returns its output values by slot. ValueError where the family refuses it."""
        kind = family(family_name)
        weights, caches = weights or {}, caches or {}
        kind.check_slots("inputs", inputs)
        kind.check_slots("weights", weights)
        kind.check_slots("caches", caches)
        full = kind.complete(attrs)
        shapes = Shapes(
            inputs={slot: self.values[value] for slot, value in inputs.items()},
            weights={slot: self.weights[name].spec for slot, name in weights.items()},
            caches={
                slot: tuple(spec for _, spec in self.caches[name].parts)
                for slot, (name, _) in caches.items()
            },
            attrs=full,
        )
        specs = kind.infer(shapes)
        op_id = self.path + ident
        # the only output, or the one called y, is named as the op itself
        first = "y" if len(specs) > 1 else next(iter(specs), "")
        outputs = {
            slot: op_id if slot == first else f"{op_id}.{slot}"
            for slot in (name.rstrip("?*") for name in kind.outputs)
            if slot in specs
        }
        for slot, value in outputs.items():
            self.values[value] = specs[slot]
        self.ops.append(
            Op(
                id=op_id,
                family=family_name,
                layer=self.layer,
                inputs=tuple(inputs.items()),
                outputs=tuple(outputs.items()),
                weights=tuple(weights.items()),
                caches=tuple(
                    CacheUse(slot=slot, cache=name, mode=mode)
                    for slot, (name, mode) in caches.items()
                ),
                attrs=tuple(full.items()),
                because=self.because,
            )
        )
        return outputs

    def linear(
        self,
        ident: str,
        x: str,
        source: Expr,
        *,
        role: str,
        bias: Expr | None = None,
        groups: int = 1,
    ) -> str:
        """y = x W^T + b."""
        weights = {"weight": self.weight(ident, source, role=role)}
        if bias is not None:
            weights["bias"] = self.weight(f"{ident}.bias", bias, role=role)
        return self.op("linear", ident, {"x": x}, weights, groups=groups)["y"]

    def project(
        self,
        ident: str,
        x: str,
        at: Scope,
        spellings: Spellings,
        out: int,
        *,
        role: str,
        bias: bool | None = False,
    ) -> str:
        """A linear from tensor names without ".weight"; its bias stands beside it.

        `bias`: True the config says there is one, None or False only where the headers show it.
        """
        options = (spellings,) if isinstance(spellings, str) else spellings
        name = at.spelling(tuple(f"{option}.weight" for option in options))
        source = at.leaf(name, (out, self.width(x)))
        bias_name = name.removesuffix(".weight") + ".bias"
        has_bias = bool(bias) or at.has(bias_name)
        return self.linear(
            ident,
            x,
            source,
            role=role,
            bias=at.leaf(bias_name, (out,)) if has_bias else None,
        )


def _format(source: Expr) -> str:
    """Storage format of an expression: that of its first leaf."""
    while True:
        if isinstance(source, Leaf):
            return source.format
        if isinstance(source, Tied):
            return "bf16"
        if hasattr(source, "left"):
            source = source.left  # type: ignore[union-attr]
            continue
        below = source.of  # type: ignore[union-attr]
        source = below[0] if isinstance(below, tuple) else below


__all__ = ["Builder", "Stack"]
