"""Readings of checkpoints and configs for the mechanisms' tests, and what can be asked of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from day0.checkpoint.headers import Headers, TensorHeader
from day0.checkpoint.load import load
from day0.ir.cache import CacheSpec
from day0.ir.fact import Fact
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.weight import Leaf, Pick, picks
from day0.mechanisms.config import ConfigReader
from day0.models.build import build
from day0.models.decoder import Reading, read
from day0.models.known.harmless import HARMLESS
from day0.models.words import reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A checkpoint as read and built; `headers` is None for a config alone."""

    model: Model
    reading: Reading
    cfg: ConfigReader
    headers: Headers | None

    @property
    def main(self) -> Graph:
        return self.model.graphs["main"]

    @property
    def facts(self) -> dict[str, Fact]:
        return self.cfg.facts

    def ops(self, family: str, layer: int | None = None) -> list[Op]:
        """The main graph's ops of a family, of one layer where it is given."""
        return [op for op in self.main.ops if op.family == family and layer in (None, op.layer)]

    def op(self, ident: str) -> Op:
        """The main graph's op called `ident`; KeyError when there is none."""
        return {op.id: op for op in self.main.ops}[ident]

    def mixer(self, layer: int) -> Any:
        """The spec of a layer's first mixer."""
        return self.reading.spec.layers[layer].sublayers[0].branches[0].spec

    def mixers(self) -> list[str]:
        return [layer.sublayers[0].branches[0].stem for layer in self.reading.spec.layers]

    def caches(self, layer: int) -> dict[str, CacheSpec]:
        """The main graph's caches of a layer by the last part of their names."""
        return {
            name.split(".mixer.")[1]: cache
            for name, cache in self.model.caches.items()
            if cache.layer == layer and ".mixer." in name and name.startswith("layers.")
        }

    def held(self, layer: int, role: str, num_tokens: int) -> int:
        """Elements that growing caches of a role hold after so many tokens."""
        return sum(
            cache.elements * cache.entries(num_tokens)
            for cache in self.caches(layer).values()
            if cache.role == role and cache.growth in ("per-token", "pooled")
        )

    def unread(self) -> tuple[str, ...]:
        return self.cfg.unread(HARMLESS)

    def assumed(self) -> dict[str, Any]:
        return {path: fact.value for path, fact in self.facts.items() if fact.how == "assumed"}

    def params(self) -> int:
        """Elements of all leaves, each once."""
        return sum(_size(leaf.dims) * (count or 1) for leaf, count, _ in self._leaves())

    def per_token(self, role: str) -> float:
        """Elements that a further token adds to the main graph's caches of a role."""
        return sum(
            cache.elements / cache.every
            for name, cache in self.model.caches.items()
            if cache.role == role
            and cache.growth in ("per-token", "pooled")
            and name.startswith("layers.")
            and cache.layer < len(self.reading.spec.layers)
        )

    def unexplained(self, *aside: str) -> tuple[list[str], list[str], list[str]]:
        """(missing, unexpected, wrongly shaped or partly used) tensors of plain checkpoints;
        names that start with one of `aside` do not count."""
        assert self.headers is not None
        stored = {
            name: header.shape
            for name, header in self.headers.tensors.items()
            if not name.startswith(aside or ("\0",))
        }
        expected: dict[str, Leaf] = {}
        taken: dict[str, list[tuple[Pick, ...]]] = {}
        for leaf, count, below in self._leaves(once=False):
            names = [leaf.name.format(e=e) for e in range(count)] if count else [leaf.name]
            for name in names:
                expected[name] = leaf
                taken.setdefault(name, []).append(below)
        wrong = [
            name
            for name, leaf in expected.items()
            if name in stored
            and (tuple(leaf.dims) != tuple(stored[name]) or not _whole(taken[name]))
        ]
        return (
            sorted(set(expected) - set(stored)),
            sorted(set(stored) - set(expected)),
            wrong,
        )

    def stored_names(self) -> set[str]:
        """Every stored tensor that a leaf reads, scales included."""
        names: set[str] = set()
        for leaf, count, _ in self._leaves():
            for part in [name for _, name in leaf.parts] or [leaf.name]:
                names.update(part.format(e=e) for e in range(count)) if count else names.add(part)
        return names

    def _leaves(self, once: bool = True) -> Iterable[tuple[Leaf, int, tuple[Pick, ...]]]:
        seen: set[str] = set()
        for weight in self.model.weights.values():
            for expr in (weight.source, *weight.padding):
                for leaf, count, below in picks(expr):
                    if not once or leaf.name not in seen:
                        seen.add(leaf.name)
                        yield leaf, count, below


def from_folder(folder: Path, *, headers: bool = True) -> Read:
    """The checkpoint in a folder, or its config alone."""
    checkpoint = load(str(folder))
    return from_parts(checkpoint.config, checkpoint.headers if headers else None)


def from_corpus(corpus: Path, name: str, headers: Headers | None = None) -> Read:
    """A real config of the corpus."""
    text = (corpus / "configs" / f"{name}.json").read_text(encoding="utf-8")
    return from_parts(json.loads(text), headers)


def from_parts(
    config: Mapping[str, Any], headers: Headers | None, *, stated: Mapping[str, Any] | None = None
) -> Read:
    """A config and headers that may be made up, and facts that a user states."""
    cfg = reader(config, stated)
    reading = read(cfg, headers, None)
    model = build(reading.spec, reading.names, reading.places)
    return Read(model=model, reading=reading, cfg=cfg, headers=headers)


def renamed(headers: Headers, names: Mapping[str, str]) -> Headers:
    """The same tensors, with parts of their names replaced in the order given."""
    tensors: dict[str, TensorHeader] = {}
    for name, header in headers.tensors.items():
        for old, new in names.items():
            name = name.replace(old, new)
        tensors[name] = header
    return Headers(tensors=tensors, shards=headers.shards)


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def _size(dims: tuple[int, ...]) -> int:
    total = 1
    for dim in dims:
        total *= dim
    return total


def _whole(uses: list[tuple[Pick, ...]]) -> bool:
    """Whether the uses together take every element: one without a Pick, or single Picks of one
    dim and period that leave no gap."""
    if any(not below for below in uses):
        return True
    first = uses[0][0]
    if any(len(below) != 1 or (below[0].dim, below[0].period) != (first.dim, first.period)
           for below in uses):  # fmt: skip
        return False
    taken = {i for (pick,) in uses for i in range(pick.start, pick.stop)}
    return taken == set(range(first.period))
