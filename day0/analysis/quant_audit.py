"""What is stored in which format, and where lists, sidecar and headers contradict each other.

The headers have the last word; everything here is about what a reader of the lists alone would get
wrong. Severities: "error" where codes cannot be read, "warning" where a loader that trusts the list
builds the wrong thing, "info" where a list is merely incomplete, as those of most releases are.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from day0.checkpoint.headers import TensorHeader
from day0.ir import format as formats
from day0.ir.fact import Finding
from day0.ir.weight import Leaf
from day0.models.module_patterns import EXPERTS
from day0.models.quant_config import QuantConfig
from day0.models.stored_kv import KvScales, kv_scales

# (weight name, leaf, dtype of the stored data or None, logical elements of all its tensors)
Entry = tuple[str, Leaf, str | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFormat:
    """All weights in one format: stored weights, logical parameters, bytes with their scales."""

    format: str
    weights: int
    parameters: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantAudit:
    """`stored` by bytes, largest first; `coverage`: share of the parameters that is quantised, in
    percent; `conflicts`: findings about the quantisation; `kv`: cache scales that are shipped."""

    stored: tuple[StoredFormat, ...]
    coverage: float
    conflicts: tuple[Finding, ...]
    kv: tuple[KvScales, ...] = ()


def audit(
    entries: Iterable[Entry],
    config: QuantConfig | None,
    tensors: Mapping[str, TensorHeader] | None = None,
) -> QuantAudit:
    """Audit the recognised leaves of a model; each stored weight counts once.

    With `tensors` the bytes are those of the headers, missing scales are found and lists compared;
    without, bytes follow from the formats. A leaf with "{e}" stands for elements / prod(dims) equal
    tensors.
    """
    kept = {leaf.name: (leaf, dtype, elements) for _, leaf, dtype, elements in entries}
    rows = [(leaf, dtype, elements) for leaf, dtype, elements in kept.values() if elements]
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for leaf, _, elements in rows:
        count = _count(leaf, elements)
        total = totals[leaf.format]
        total[0] += count
        total[1] += elements
        total[2] += count * _bytes(leaf, tensors)
    stored = sorted(
        (
            StoredFormat(format=name, weights=total[0], parameters=total[1], bytes=total[2])
            for name, total in totals.items()
        ),
        key=lambda row: (-row.bytes, row.format),
    )
    parameters = sum(row.parameters for row in stored)
    quantised = sum(row.parameters for row in stored if formats.get(row.format).quantised)
    scales = kv_scales(tensors or ())
    found = [*_missing(rows, tensors), *_about_config(config)]
    if tensors is not None:  # without headers the formats are the lists' own
        found = [*found, *_against_lists(rows, config)]
    return QuantAudit(
        stored=tuple(stored),
        coverage=100 * quantised / parameters if parameters else 0.0,
        conflicts=(*found, *_about_cache(config, scales, tensors)),
        kv=scales,
    )


def fused(
    name: str, parts: tuple[tuple[str, str], ...], config: QuantConfig | None
) -> Finding | None:
    """What stands in the way of fusing stored weights into the module `name`.

    `parts`: (weight, stored format). The formats decide; the lists only tell which part a reader
    of names alone would take for quantised.
    """
    if len({stored for _, stored in parts}) > 1:
        return Finding(
            code="quant.fused-formats",
            severity="error",
            message=f"{name} cannot be fused: its parts are stored in different formats",
            evidence=tuple(f"{part}: {stored}" for part, stored in parts),
        )
    if config is None or formats.get(parts[0][1]).quantised:
        return None
    excluded, rest = config.split(tuple(part for part, _ in parts))
    if not excluded or not rest:
        return None
    return Finding(
        code="quant.fused-lists",
        severity="info",
        message=f"{name}: all parts are stored {parts[0][1]}, the exclusion list lacks some",
        evidence=rest,
    )


def grouped(names: Iterable[str]) -> tuple[str, ...]:
    """Names with their numbers taken out and counted: "layers.*.mlp.gate.weight (58 tensors)"."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name in names:
        pattern = re.sub(r"(?<=\.)(\d+|\{e\})(?=\.)", "*", name)
        first.setdefault(pattern, name)
        counts[pattern] += 1
    return tuple(
        first[pattern] if count == 1 else f"{pattern} ({count} tensors)"
        for pattern, count in sorted(counts.items())
    )


def _count(leaf: Leaf, elements: int) -> int:
    """How many equal tensors a leaf stands for."""
    return max(elements // math.prod(leaf.dims), 1) if "{e}" in leaf.name else 1


def _bytes(leaf: Leaf, tensors: Mapping[str, TensorHeader] | None) -> int:
    """Bytes of one tensor of the leaf with its companions."""
    if tensors and leaf.parts:
        headers = [tensors.get(name.replace("{e}", "0")) for _, name in leaf.parts]
        if all(headers):
            return sum(header.bytes for header in headers if header)
    return formats.get(leaf.format).bytes(leaf.dims)


def _missing(
    rows: list[tuple[Leaf, str | None, int]], tensors: Mapping[str, TensorHeader] | None
) -> list[Finding]:
    """Companions without which stored codes mean nothing."""
    if tensors is None:
        return []
    lost: list[str] = []
    for leaf, _, elements in rows:
        parts = dict(leaf.parts)
        for part in formats.get(leaf.format).required[1:]:
            name = parts.get(part.name)
            if name is None:
                continue
            for expert in range(_count(leaf, elements)):
                number = str(expert)
                if name.replace("{e}", number) in tensors:
                    continue
                if parts["data"].replace("{e}", number) in tensors:
                    lost.append(name.replace("{e}", number))
    if not lost:
        return []
    message = "quantised tensors lack a companion: their codes cannot be turned into values"
    return [_finding("scale-missing", "error", message, lost)]


def _against_lists(
    rows: list[tuple[Leaf, str | None, int]], config: QuantConfig | None
) -> list[Finding]:
    quantised = [leaf for leaf, _, _ in rows if formats.get(leaf.format).quantised]
    if config is None:
        if not quantised:
            return []
        message = "no configuration names a quantisation: the formats are read from the headers"
        return [_finding("config-absent", "info", message, (leaf.name for leaf in quantised))]
    names: dict[str, list[str]] = defaultdict(list)
    differing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for leaf, dtype, _ in rows:
        if dtype is None:
            continue
        name = leaf.name.replace("{e}", "0")
        promised = config.expected_format(name, leaf.dims)
        if not formats.get(leaf.format).quantised:
            if promised is not None:
                names["plain"].append(leaf.name)
        elif config.excluded(name) or _expert_excluded(leaf.name, config):
            names["excluded"].append(leaf.name)
        elif promised is None:
            names["unlisted"].append(leaf.name)
        elif promised.removesuffix("_ue8m0") != leaf.format.removesuffix("_ue8m0"):
            open_question = leaf.format == "mxfp4" and EXPERTS.match(leaf.name)
            if config.method == "fp8" and open_question:
                names["experts"].append(leaf.name)
            else:
                differing[promised, leaf.format].append(leaf.name)
    where = config.source
    told = {
        "excluded": ("warning", "excluded-but-quantised",
                     f"{where} excludes weights that are stored quantised"),
        "plain": ("info", "listed-but-plain",
                  f"{where} covers weights that are stored unquantised"),
        "unlisted": ("info", "unlisted-but-quantised",
                     f"{where} names no format for weights that are stored quantised"),
        "experts": ("info", "experts-fp4",
                    f"{where} does not say that the experts are FP4: their bytes hold two values, "
                    "with one E8M0 scale for 32"),
    }  # fmt: skip
    found = [
        _finding(code, severity, message, names[key])
        for key, (severity, code, message) in told.items()
        if names[key]
    ]
    for (promised, actual), some in sorted(differing.items()):
        message = f"{where} promises {promised}, the headers hold {actual}"
        found.append(_finding("format-differs", "warning", message, some))
    return found


def _expert_excluded(name: str, config: QuantConfig) -> bool:
    """Whether a list excludes one single expert of a stack, by its number."""
    if "{e}" not in name:
        return False
    numbers = {match for entry in config.listed for match in re.findall(r"experts\.(\d+)", entry)}
    return any(config.excluded(name.replace("{e}", number)) for number in numbers)


def _about_config(config: QuantConfig | None) -> list[Finding]:
    if config is None:
        return []
    found = [_finding("sidecar-differs", "warning", text, ()) for text in config.conflicts]
    if config.online:
        message = "the model needs transforms of activations that the weights do not contain"
        found.append(_finding("online-transform", "warning", message, config.online))
    if config.unread:
        message = f"{config.source} holds keys or values that were not understood"
        found.append(_finding("unread", "info", message, config.unread))
    found += [_finding("note", "info", text, ()) for text in config.notes]
    return found


def _about_cache(
    config: QuantConfig | None,
    scales: tuple[KvScales, ...],
    tensors: Mapping[str, TensorHeader] | None,
) -> list[Finding]:
    lone = [entry.lone for entry in scales if entry.lone]
    if lone:
        message = (
            "layers ship a cache scale for k or for v only; the other one is taken to be equal"
        )
        return [_finding("kv-scale-half", "warning", message, lone)]
    promised = config is not None and config.kv is not None and not config.kv.dynamic
    if promised and tensors is not None and not scales:
        message = "the KV cache is to be quantised, no scales are shipped: 1.0 is in force"
        return [_finding("kv-scale-default", "info", message, ())]
    return []


def _finding(code: str, severity: str, message: str, names: Iterable[str]) -> Finding:
    return Finding(
        code=f"quant.{code}", severity=severity, message=message, evidence=grouped(names)
    )
