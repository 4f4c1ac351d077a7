"""What a checkpoint says about its own quantisation: quantization_config and ModelOpt's sidecar.

A hint and nothing more: the headers decide what is quantised. The hint settles what shapes leave
open, and a contradiction between the two becomes a finding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from day0.models import quant_methods
from day0.models.module_patterns import Patterns, module_of, unwrapped
from day0.models.quant_block import Block, Draft, KvScheme, Rule

__all__ = ["KvScheme", "Patterns", "QuantConfig", "Rule", "quant_config"]

BLOCKS = ("quantization_config", "compression_config")
INNER = ("text_config", "llm_config", "language_config")
SIDECAR = "hf_quant_config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantConfig:
    """A parsed quantisation block.

    `method`: its quant_method. `source`: where it stands. `rules`: formats by target, the first
    that takes a weight counts. `layers`: formats of single modules (None: unknown algorithm),
    before all rules. `exclude`: modules that stay as they were; `listed`: the entries as written,
    also those that exclude from a second pass only. `kv`: the cache's scheme.
    `activations`: "dynamic", "static" or "". `unread`: keys and values nobody understood.
    `conflicts`: where config.json and sidecar say different things. `notes`: what a reader should
    know. `online`: transforms of activations that the model needs at run time.
    """

    method: str
    source: str
    rules: tuple[Rule, ...] = ()
    layers: Mapping[str, str | None] = field(default_factory=dict)
    exclude: Patterns = Patterns()
    listed: tuple[str, ...] = ()
    kv: KvScheme | None = None
    activations: str = ""
    unread: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    online: tuple[str, ...] = ()

    def excluded(self, name: str) -> bool:
        """Whether a list keeps the weight `name` (checkpoint naming) out of quantisation.

        False for a layer that has a format of its own.
        """
        module = module_of(name)
        if self._layer(module) is not None:
            return False
        return self.exclude.match(module)

    def expected_format(self, name: str, dims: tuple[int, ...]) -> str | None:
        """The format promised for the weight `name`; None for vectors, for excluded and unnamed
        weights, and where the algorithm is unknown."""
        if len(dims) < 2:
            return None
        module = module_of(name)
        layer = self._layer(module)
        if layer is not None:
            return self.layers[layer]
        if self.exclude.match(module):
            return None
        for rule in self.rules:
            if rule.takes(name, module, dims):
                return rule.format
        return None

    def split(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(excluded, not excluded) parts of a module that an engine fuses out of `names`.

        A fused module is on no list itself: it is excluded when all of its parts are.
        """
        inside = tuple(name for name in names if self.excluded(name))
        return inside, tuple(name for name in names if name not in inside)

    def _layer(self, module: str) -> str | None:
        """The entry of `layers` that covers a module, itself or one above it."""
        if not self.layers:
            return None
        for path in (module, unwrapped(module)):
            while path:
                if path in self.layers:
                    return path
                path = path.rpartition(".")[0]
        return None


def quant_config(
    config: Mapping[str, Any], sidecar: Mapping[str, Any] | None = None
) -> QuantConfig | None:
    """Parse the quantisation block of a config.json and the ModelOpt sidecar; None without either.

    Day0Error names an entry that has the wrong type or is no valid pattern.
    """
    found = _find(config)
    own = _parse(*found, config) if found else None
    side = _sidecar(sidecar) if sidecar else None
    if own is None or side is None:
        return own or side
    return _merge(own, side)


def _find(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """(path, block) of the first block that holds something, the top before inner configs."""
    places = [("", config)]
    places += [(f"{key}.", config[key]) for key in INNER if isinstance(config.get(key), Mapping)]
    for path, place in places:
        for key in BLOCKS:
            block = place.get(key)
            if isinstance(block, Mapping) and block:
                return f"{path}{key}", block
    return None


def _parse(path: str, values: Mapping[str, Any], config: Mapping[str, Any]) -> QuantConfig:
    inner = next((config[key] for key in INNER if isinstance(config.get(key), Mapping)), {})
    around = config.get("expert_dtype") or inner.get("expert_dtype")
    block = Block(values)
    draft = quant_methods.read(block, expert_dtype=around)
    return _finish(path, draft, (*draft.unread, *block.unread()))


def _sidecar(values: Mapping[str, Any]) -> QuantConfig:
    block = Block(values)
    block.skip("producer")
    inner = block.block("quantization") or Block({})
    draft = quant_methods.read(inner, default="modelopt")
    return _finish(SIDECAR, draft, (*draft.unread, *block.unread()))


def _finish(source: str, draft: Draft, unread: tuple[str, ...]) -> QuantConfig:
    # Layer names get a second key without wrappers, as tensors may be named either way.
    layers = {unwrapped(name): value for name, value in draft.layers.items()} | draft.layers
    return QuantConfig(
        method=draft.method,
        source=source,
        rules=tuple(draft.rules),
        layers=layers,
        exclude=draft.exclude,
        listed=draft.listed or draft.exclude.entries,
        kv=draft.kv,
        activations=draft.activations,
        unread=unread,
        notes=tuple(draft.notes),
        online=tuple(draft.online),
    )


def _merge(own: QuantConfig, side: QuantConfig) -> QuantConfig:
    """config.json's block, completed by the sidecar where it is silent."""
    conflicts: list[str] = []
    notes = [*own.notes]
    ours, theirs = set(own.listed), set(side.listed)
    if theirs and ours != theirs:
        only = sorted(ours ^ theirs)
        shown = ", ".join(only[:3])
        conflicts.append(f"{own.source} and {SIDECAR} exclude different modules: {len(only)} "
                         f"entries stand in one of them only, such as {shown}")  # fmt: skip
    formats = {rule.format for rule in own.rules}, {rule.format for rule in side.rules}
    if all(formats) and not formats[0] & formats[1]:
        names = [", ".join(sorted(str(name) for name in some)) for some in formats]
        conflicts.append(f"{own.source} says {names[0]}, {SIDECAR} says {names[1]}")
    layers = [name for name in own.layers if own.layers[name] != side.layers.get(name)]
    if own.layers and side.layers and (layers or len(own.layers) != len(side.layers)):
        conflicts.append(f"{own.source} and {SIDECAR} name different quantised layers: "
                         f"{', '.join(layers[:3])}")  # fmt: skip
    kv = own.kv
    if kv is None and side.kv is not None:
        kv = side.kv
        notes.append(f"the KV cache scheme {kv.format} stands in {SIDECAR} only")
    elif kv is not None and side.kv is not None and kv.format != side.kv.format:
        conflicts.append(f"{own.source} says KV {kv.format}, {SIDECAR} says {side.kv.format}")
    return QuantConfig(
        method=own.method,
        source=own.source,
        rules=own.rules or side.rules,
        layers=own.layers or side.layers,
        exclude=own.exclude if own.listed else side.exclude,
        listed=own.listed or side.listed,
        kv=kv,
        activations=own.activations or side.activations,
        unread=(*own.unread, *(f"{SIDECAR}:{key}" for key in side.unread)),
        conflicts=tuple(conflicts),
        notes=tuple(notes),
        online=own.online,
    )
