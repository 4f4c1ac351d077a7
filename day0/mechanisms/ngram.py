"""Hashed n-gram features: rows of a very large table chosen by the last few token ids, gated into
the residual streams (architectures.md 2.2, PLE). Not a mixer: `hyper_gate` adds it before a layer.

The table may stay in host memory: which rows a step needs depends on token ids alone.
"""

import math
from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Cat, Expr, dims_of
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.short_conv import short_conv
from day0.mechanisms.spec import Flow, Layer

MODULE = "ple"
TABLE = "ple_embedding.ngram_embedding"
SHARD = TABLE + ".shard_{e}.weight"
HISTORY = "history"  # the graph input with the ids before a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Ngram:
    """`num_heads` hash heads in all, equally many for n = 2..`max_n`; each yields a row of
    `row_dim`. `shards`: rows of the stored pieces of the table, in order; () one piece of `rows`.
    `reset_id`: ids before the last one of these count as it (end of text)."""

    num_heads: int
    max_n: int
    rows: int
    row_dim: int
    shards: tuple[int, ...]
    conv_size: int
    num_streams: int
    reset_id: int
    eps: float
    zero_centered: bool


def owned(layer: Layer) -> bool:
    """Whether n-gram features join before this layer; `ple_layer_ids` counts from 1."""
    listed = layer.cfg.word("ple_layer_ids")
    if layer.at.names:
        return layer.at.has_module(MODULE)
    return listed is not None and layer.index + 1 in listed


def read(layer: Layer, num_streams: int) -> Ngram:
    cfg, at = layer.cfg, layer.at.child(MODULE)
    max_n = cfg.get(
        "ngram.max_n", "ngram_size", derive=lambda: at.dim(0, "ple_embedding.layer_multipliers")
    )
    num_heads = (max_n - 1) * cfg.get(
        "ngram.heads_per_n", "heads_per_ngram", derive=lambda: _heads_per_n(at, max_n)
    )
    width = cfg.get(
        "ngram.width", "ple_embed_dim", derive=lambda: at.dim(1, "value_proj.weight"),
        default=layer.shape.hidden_size,
    )  # fmt: skip
    # The multipliers drawn from `seed` are stored; number_of_conv_states is a runtime's own count.
    for key in ("seed", "number_of_conv_states", "split_ngram_parts"):
        cfg.word(key)
    shards = _shards(layer, at)
    if shards:
        cfg.word("ngram_vocab_size_base")
        cfg.word("make_ngram_vocab_size_divisible_by")
    return Ngram(
        num_heads=num_heads,
        max_n=max_n,
        rows=sum(shards) or _rows(layer, at, num_heads),
        row_dim=width // num_heads,
        shards=shards,
        conv_size=cfg.get(
            "ngram.conv_size", "ple_conv_kernel_size", derive=lambda: at.dim(2, "conv1d.weight")
        ),
        num_streams=num_streams,
        reset_id=_reset_id(layer),
        eps=layer.shape.norm_eps,
        zero_centered=layer.shape.zero_centered,
    )


def _heads_per_n(at: Scope, max_n: int) -> int | None:
    heads = at.dim(0, "ple_embedding.ngram_heads_vocab_sizes")
    return None if heads is None else heads // (max_n - 1)


def _reset_id(layer: Layer) -> int:
    value = layer.cfg.get("ngram.reset_id", "eos_token_id", "^eos_token_id", assume=-1,
                          decisive=True)  # fmt: skip
    listed = value if isinstance(value, list | tuple) else (value,)
    return int(listed[0]) if listed else -1


def _shards(layer: Layer, at: Scope) -> tuple[int, ...]:
    """Rows of each stored piece; () where there is one piece or no header."""
    rows = [at.dim(0, SHARD.format(e=number)) for number in range(at.count(SHARD) or 0)]
    known = tuple(row for row in rows if row is not None)
    return known if len(known) == len(rows) else ()


def _rows(layer: Layer, at: Scope, num_heads: int) -> int:
    """Heads have the primes from `ngram_vocab_size_base` on as sizes, each used once in the whole
    model; the sum is padded (transformers 5.24, modeling_qwen4_exp)."""
    cfg = layer.cfg
    stored = at.dim(0, f"{TABLE}.weight")
    base = cfg.get("ngram.base", "ngram_vocab_size_base", assume=stored)
    divisor = cfg.get("ngram.divisor", "make_ngram_vocab_size_divisible_by", default=1)
    if stored is not None:
        return stored
    listed: list[int] = list(cfg.word("ple_layer_ids") or ())
    place = listed.index(layer.index + 1) if layer.index + 1 in listed else 0
    sizes = primes_from(base, (place + 1) * num_heads)[-num_heads:]
    return math.ceil(sum(sizes) / divisor) * divisor


def primes_from(start: int, count: int) -> list[int]:
    """The first `count` primes that are not below `start`."""
    found: list[int] = []
    number = max(start, 2)
    while len(found) < count:
        if all(number % divisor for divisor in range(2, math.isqrt(number) + 1)):
            found.append(number)
        number += 1
    return found


def flow(spec: Ngram, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    """Features for all streams [T, streams * hidden]; `x` the streams, `at` the module itself."""
    streams = b.width(x)
    hidden = streams // spec.num_streams
    features = _lookup(spec, b, at, flow)
    key = b.project("key_proj", features, at, "key_proj", streams, role="dense")
    key = _norm(spec, b, "norm_key", key, at, hidden)
    value = b.project("value_proj", features, at, "value_proj", hidden, role="dense")
    query = _norm(spec, b, "norm_query", x, at, hidden)
    inputs = {"key": key, "query": query, "value": value}
    gated = b.op("ngram_gate", "gate", inputs, num_streams=spec.num_streams)["y"]
    kernel = at.leaf("conv1d.weight", (streams, 1, spec.conv_size))
    local = short_conv(
        b, "conv", _norm(spec, b, "norm_conv", gated, at, hidden), kernel, dilation=spec.max_n
    )
    return b.op("add", "features", {"a": gated, "b": local})["y"]


def _lookup(spec: Ngram, b: Builder, at: Scope, flow: Flow) -> str:
    if HISTORY not in flow.inputs:
        history = TensorSpec(dims=("R", spec.max_n - 1), format="int32")
        flow.inputs[HISTORY] = b.input(HISTORY, history)
    heads = (spec.num_heads,)
    sources: dict[str, Expr] = {
        "table": _table(spec, at),
        "multipliers": at.leaf("ple_embedding.layer_multipliers", (spec.max_n,)),
        "head_sizes": at.leaf("ple_embedding.ngram_heads_vocab_sizes", heads),
        "head_offsets": at.leaf("ple_embedding.ngram_heads_offsets", heads),
    }
    weights = {
        slot: b.weight(slot, source, role="lookup", home="host") for slot, source in sources.items()
    }
    assert dims_of(sources["table"]) == (spec.rows, spec.row_dim)
    return b.op(
        "ngram_embedding",
        "lookup",
        {"ids": flow.inputs["ids"], "history": flow.inputs[HISTORY]},
        weights,
        num_heads=spec.num_heads,
        max_n=spec.max_n,
        reset_id=spec.reset_id,
    )["y"]


def _table(spec: Ngram, at: Scope) -> Expr:
    if not spec.shards:
        return at.leaf((f"{TABLE}.weight", SHARD.format(e=0)), (spec.rows, spec.row_dim))
    pieces = tuple(
        at.leaf(SHARD.format(e=number), (rows, spec.row_dim))
        for number, rows in enumerate(spec.shards)
    )
    return pieces[0] if len(pieces) == 1 else Cat(of=pieces)


def _norm(spec: Ngram, b: Builder, name: str, x: str, at: Scope, group: int) -> str:
    return weighted_rms(
        b, name, x, at, f"{name}.weight",
        eps=spec.eps, size=b.width(x), group=group, zero_centered=spec.zero_centered,
    )  # fmt: skip
