"""What the exclusion lists of a checkpoint come to: which weights every entry names, whatever its
spelling, and which modules an engine could not fuse for them.

An entry may be a short name, carry a wrapper's prefix, name single experts, be a glob or a regex;
entries that differ in numbers alone are counted together.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from day0.analysis.machine import Gpu
from day0.analysis.quant_audit import fused, grouped
from day0.ir import format as formats
from day0.ir.fact import Finding
from day0.ir.graph import Model
from day0.ir.weight import Leaf, leaves
from day0.models.module_patterns import module_of, parse
from day0.models.promised import spellings
from day0.models.quant_config import QuantConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """`entry` as it is written, numbers as "*" where `entries` of them differ in those alone.
    `weights` of the graph that it names, with `params` elements, of which `quantised` are stored
    quantised all the same; 0 weights: it names what is not executed, or nothing."""

    entry: str
    entries: int
    weights: int
    params: int
    quantised: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """How a GPU multiplies by weights in a format. `units`: "fp8", "fp4" or "bf16", the matrix
    units at work; `native`: they take the stored codes, no widening. `words`: a sentence."""

    format: str
    units: str
    native: bool
    words: str


def exclusions(
    model: Model, config: QuantConfig | None, *, headers: bool = True
) -> tuple[Exclusion, ...]:
    """Every entry of the lists with what it covers. Without `headers` the tensors' spellings are
    guesses, so that an entry may name them in any."""
    if config is None or not config.listed:
        return ()
    named: dict[str, list[str]] = defaultdict(list)
    for entry in config.listed:
        named[_numberless(entry)].append(entry)
    stored = _alike(model)
    found = []
    for pattern, entries in named.items():
        hit = list(_hit(entries, stored, headers))
        found.append(
            Exclusion(
                entry=entries[0] if len(entries) == 1 else pattern,
                entries=len(entries),
                weights=sum(times for _, times in hit),
                params=sum(math.prod(leaf.dims) * times for leaf, times in hit),
                quantised=sum(times for leaf, times in hit if formats.get(leaf.format).quantised),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.params, one.entry)))


# A module with every number 0 -> stored tensors: (leaf, how many equal ones it stands for)
Alike = Mapping[str, list[tuple[Leaf, int]]]


def _alike(model: Model) -> Alike:
    """Stored tensors that could be quantised, each once, those that differ in numbers together."""
    found: dict[str, tuple[Leaf, int]] = {
        leaf.name: (leaf, max(stack, 1))
        for weight in model.weights.values()
        for leaf, stack in leaves(weight.source)
        if len(leaf.dims) > 1
    }
    groups: dict[str, list[tuple[Leaf, int]]] = defaultdict(list)
    for leaf, times in found.values():
        groups[_zeros(_module(leaf))].append((leaf, times))
    return groups


def _hit(entries: list[str], stored: Alike, headers: bool) -> Iterator[tuple[Leaf, int]]:
    """Tensors that one of the entries names. Numbers aside, most entries name none of a group, and
    those without a number all of it: only what is left is asked one by one."""
    numbered = any(re.search(r"\d", entry) for entry in entries)
    expressions = any(entry.startswith("re:") for entry in entries)
    patterns = parse(entries)
    rough = patterns if expressions or not numbered else parse(map(_zeros, entries))
    for module, tensors in stored.items():
        ways = [module] if headers else list(spellings(module))
        if numbered and expressions:
            at = range(len(ways))
        else:
            at = [number for number, way in enumerate(ways) if rough.match(way)]
            if at and not numbered:
                yield from tensors
                continue
        for leaf, times in tensors if at else ():
            own = [_module(leaf)] if headers else list(spellings(_module(leaf)))
            if any(patterns.match(own[number]) for number in at):
                yield leaf, times


def _module(leaf: Leaf) -> str:
    """The module a tensor stands in; of a stack of experts that of the first."""
    return module_of(leaf.name.replace("{e}", "0"))


def _zeros(text: str) -> str:
    """With 0 for every number that stands alone: "layers.3.w1" is "layers.0.w1"."""
    return re.sub(r"(?<!\w)\d+(?!\w)", "0", text)


def fusions(model: Model, config: QuantConfig | None) -> tuple[Finding, ...]:
    """Modules that engines build out of the products of one input (q, k, v; gate, up): where their
    parts are stored differently, or a list names only some of them. day0 itself goes by what is
    stored and merges plain formats alone, so neither is more than a remark (field cases 114, 115).
    """
    if config is None:
        return ()
    graph = model.graphs["main"]
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for op in graph.ops:
        if op.family != "linear" or op.attr("groups") != 1:
            continue
        weight = model.weights[dict(op.weights)["weight"]]
        if isinstance(weight.source, Leaf):
            leaf = weight.source
            groups[dict(op.inputs)["x"], weight.role].append((leaf.name, leaf.format))
    told: dict[str, list[str]] = defaultdict(list)
    words: dict[str, str] = {}
    for parts in groups.values():
        if len(parts) < 2:
            continue
        finding = fused("a fused module", tuple(parts), config)
        if finding is not None:
            told[finding.code] += (text.partition(": ")[0] for text in finding.evidence)
            words[finding.code] = finding.message
    return tuple(
        replace(
            Finding(code=code, severity="info", message=words[code]),
            evidence=grouped(dict.fromkeys(names)),
        )
        for code, names in told.items()
    )


def capabilities(used: Iterable[str], gpu: Gpu) -> tuple[Capability, ...]:
    """Of every quantised format among `used`."""
    return tuple(
        _capability(name, gpu) for name in dict.fromkeys(used) if formats.get(name).quantised
    )


def _capability(name: str, gpu: Gpu) -> Capability:
    bits = formats.get(name).bits
    block_scaled = gpu.capability >= (10, 0)  # tcgen05 takes E8M0 and E4M3 group scales
    if name.startswith("fp8_") and "fp8" in gpu.rates:
        return _said(name, "fp8", True, "FP8 units; scales are applied to the sums")
    if name == "mxfp8" and "fp8" in gpu.rates:
        how = "with their group scales" if block_scaled else "group scales applied in software"
        return _said(name, "fp8", block_scaled, f"FP8 units, {how}")
    if name in ("nvfp4", "nvfp4_ct", "mxfp4") and "fp4" in gpu.rates:
        return _said(name, "fp4", True, "FP4 units where the rows are FP4 too")
    if name.startswith("fp8_") or name == "mxfp8":
        return _said(name, "bf16", False, f"{gpu.name} has no FP8 units: codes are widened to bf16")
    saved = f"{16 // bits} times fewer bytes are read" if bits < 16 else "nothing is saved"
    return _said(name, "bf16", False, f"codes are widened to bf16; {saved}")


def _said(name: str, units: str, native: bool, words: str) -> Capability:
    return Capability(format=name, units=units, native=native, words=words)


def _numberless(entry: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=[.*]|$)", "*", entry).replace("**", "*")
