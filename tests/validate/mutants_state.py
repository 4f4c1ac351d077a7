"""Faults of what is kept between steps, of lowering and of formats: one way goes wrong, another
does not."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import torch

from tests.validate.mutant import Mutant, argument, part

KDA = "day0_kernels.kda.reference:kda_prefill"
KDA_DECODE = "day0_kernels.kda.reference:kda_decode_fused"
CONV = ("short_conv", "merged_short_conv")
READERS = ("gqa", "mla", "sparse_mla")


def _zeros(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda kept, start, dtype: torch.zeros_like(kept, dtype=dtype)


def _one_row(change: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """A change of steps of one row alone."""

    def both(right: Callable[..., Any]) -> Callable[..., Any]:
        wrong = change(right)

        @wraps(right)
        def call(**given: Any) -> Any:
            alone = given["cu_seqlens"].diff().max() <= 1
            return (wrong if alone else right)(**given)

        return call

    return both


def _first(given: Mapping[str, Any], name: str) -> torch.Tensor:
    return given[name][:1]


def _whole(given: Mapping[str, Any]) -> torch.Tensor:
    return given["cu_seqlens"][[0, -1]]


def _later(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda positions, first, entries, *window: right(positions + 5, first, entries, *window)


def _straight_pages(right: Callable[..., Any]) -> Callable[..., Any]:
    """Pages are taken to lie one behind the other, whatever the table says."""

    def history(self: Any, span: int, every: int, step: Any) -> Any:
        table = step.tables[span]
        follow = torch.arange(table.shape[1])
        straight = torch.where(table > 0, table[:, :1] + follow, 0)
        most = max(part.shape[0] for parts in self.parts.values() for part in parts.values())
        tables = {**step.tables, span: straight.clamp(max=most - 1)}
        return right(self, span, every, replace(step, tables=tables))

    return history


def _lost_border(right: Callable[..., Any]) -> Callable[..., Any]:
    """A decoded token that begins a page is not written."""

    def write(self: Any, cache: Any, name: str, step: Any, value: torch.Tensor) -> None:
        begins = int(step.positions[0]) % self.page_size == 0
        if step.phase != "decode" or not begins or int(step.positions[0]) == 0:
            right(self, cache, name, step, value)

    return write


def _wrapped(right: Callable[..., Any]) -> Callable[..., Any]:
    """Offsets that begin again at 128 rows, as narrow integers do at theirs."""

    def write(self: Any, cache: Any, name: str, step: Any, value: torch.Tensor) -> None:
        right(self, cache, name, replace(step, positions=step.positions % 128), value)

    return write


def _not_from_the_start(right: Callable[..., Any]) -> Callable[..., Any]:
    """Who was put back goes on at its second page."""

    def put_back(self: Any, request: Any) -> None:
        right(self, request)
        request.done = min(len(request.tokens) - 1, self.limits.page_size)

    return put_back


def _capture_in(slot: int, page: int) -> Callable[..., Any]:
    """Padding that belongs to somebody while a graph is captured."""

    def change(right: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *arguments: Any) -> None:
            right(self, *arguments)
            self.step.slot.fill_(slot)
            for table in self.step.tables.values():
                table.fill_(page)

        return init

    return change


def _stale_padding(right: Callable[..., Any]) -> Callable[..., Any]:
    """Rows beyond the batch keep the slots and pages of an earlier one."""

    def fill(self: Any, step: Any) -> None:
        right(self, step)
        count = step.num_sequences
        self.step.slot[count:] = self.step.slot[0]
        for table in self.step.tables.values():
            table[count:] = table[0]

    return fill


def _last_block(given: Mapping[str, Any]) -> list[torch.Tensor]:
    """The block before the last is overwritten by the last, when a single token is decoded."""
    x = given["x"]
    return [*x[:-2], x[-1], x[-1]] if len(x) > 2 and len(x[0]) == 1 else x


def _unordered(right: Callable[..., Any]) -> Callable[..., Any]:
    """Sums in an order that changes from run to run."""

    @wraps(right)
    def linear(**given: Any) -> None:
        order = torch.randperm(given["x"].shape[-1])
        if given["weight"].shape[-1] == len(order):
            given |= {"x": given["x"][..., order], "weight": given["weight"][..., order]}
        right(**given)

    return linear


def _neighbour(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, amax: right(x, amax.roll(1, -2))


def _too_small(right: Callable[..., Any]) -> Callable[..., Any]:
    """Rounded to the nearest power of two instead of up."""
    return lambda amax, rule: right(amax / 2**0.5, rule)


def _absorbed(right: Callable[..., Any]) -> Callable[..., Any]:
    """Every version of a slot is what stands there behind the last token of the step."""

    def make(function: Any, rows: Any, kept: list[torch.Tensor], versions: int) -> Any:
        call = right(function, rows, kept, versions)

        def wrong(**given: Any) -> None:
            call(**given)
            first = given["slot"] - given["slot"] % versions
            for buffer in kept:
                for version in range(versions - 1):
                    buffer[first + version] = buffer[first + versions - 1]

        return wrong

    return make


MUTANTS = (
    Mutant(name="prefix without its state", of="prefix caches return KV without the state",
           kind="kimi_linear", cell="prefix", families=(*CONV, "kda", "kda_step"),
           switch=part("day0.runtime.sharing:Places.restore", lambda right: lambda *_: None)),
    Mutant(name="state absorbs rejected drafts", of="173, 175", kind="kimi_linear", cell="drafts",
           families=(*CONV, "kda"), where=lambda op: op.family in CONV,
           switch=part("day0.runtime.verify:_token_by_token", _absorbed)),
    Mutant(name="conv tail lost between chunks", of="166", kind="kimi_linear", cell="chunks",
           families=CONV, where=lambda op: op.family in CONV,
           switch=part("day0_kernels.short_conv.reference:carried", _zeros)),
    Mutant(name="state not carried between chunks", of="163, 167", kind="kimi_linear",
           cell="chunks", families=("kda",),
           switch=part(KDA, argument(start=lambda g: torch.zeros_like(g["start"])))),
    Mutant(name="open pool lost between chunks", of="169", kind="glm5_next", cell="chunks",
           families=("compress", "indexer"),
           switch=part("day0_kernels.compress.reference:_keep", lambda right: lambda *_: None)),
    Mutant(name="slot not cleared", of="slot not cleared", kind="kimi_linear", cell="reuse",
           families=("kda",), switch=part(KDA, argument(start=lambda g: g["start"] + 1))),
    Mutant(name="state transposed at dk = dv", of="171", kind="kimi_linear", cell="decode",
           families=("kda", "kda_step"),
           switch=part(KDA_DECODE, argument(state=lambda g: g["state"].transpose(-1, -2)))),
    Mutant(name="state leaks over packed sequences", of="147, 148", kind="kimi_linear",
           cell="batch", families=("kda",),
           switch=part(KDA, argument(cu_seqlens=_whole, slot=lambda g: _first(g, "slot"),
                                     start=lambda g: _first(g, "start")))),
    Mutant(name="positions counted over the batch", of="165", kind="glm_moe_dsa", cell="batch",
           families=("rope",),
           switch=part("day0_kernels.rope.reference:rope", argument(
               positions=lambda g: torch.arange(len(g["x"])) + g["positions"][:1]))),
    Mutant(name="top-k takes a future position", of="top-k including a future position",
           kind="glm_moe_dsa", cell="causal", families=("indexer",),
           switch=part("day0_kernels.indexer.reference:causal", _later)),
    Mutant(name="window one shorter in decode", of="window off by one", kind="gpt_oss",
           cell="decode", families=("gqa",), where=lambda op: dict(op.attrs).get("window", 0) > 0,
           switch=part("day0_kernels.gqa.reference:gqa", _one_row(argument(
               window=lambda g: max(g["window"] - 1, 0))))),
    Mutant(name="page table ignored", of="141", kind="llama", cell="batch", families=READERS,
           switch=part("day0.runtime.storage:Storage._history", _straight_pages)),
    Mutant(name="first token of a page not written", of="169", kind="llama", cell="decode",
           families=READERS,
           switch=part("day0.runtime.storage:Storage.write_rows", _lost_border)),
    Mutant(name="recomputed from the middle", of="evict", kind="kimi_linear", cell="evict",
           families=(*CONV, "kda", "kda_step"),
           switch=part("day0.runtime.engine:Engine._put_back", _not_from_the_start)),
    Mutant(name="capture writes live state", of="178", kind="kimi_linear", cell="padding",
           families=("kda_step",), where=lambda op: op.family == "kda",
           switch=part("day0.runtime.capture:Padding.__init__", _capture_in(1, 0))),
    Mutant(name="padded row writes a live page", of="padded row writing page 0", kind="llama",
           cell="padding", families=READERS,
           switch=part("day0.runtime.capture:Padding.__init__", _capture_in(0, 1))),
    Mutant(name="padding of an earlier batch", of="181", kind="llama", cell="padding",
           families=READERS, switch=part("day0.runtime.capture:Padding.fill", _stale_padding)),
    Mutant(name="last residual block overwritten", of="last attention-residual block overwritten",
           kind="demo", cell="decode", families=("attn_residual",),
           where=lambda op: op.family == "attn_residual" and len(op.inputs) > 2,
           switch=part("day0_kernels.attn_residual.reference:attn_residual",
                       argument(x=_last_block))),
    Mutant(name="fused path of another eps", of="131", kind="llama", cell="passes",
           families=("add_rmsnorm",), where=lambda op: op.family == "add",
           switch=part("day0_kernels.rmsnorm.reference:add_rmsnorm",
                       argument(eps=lambda g: 2 * g["eps"] + 0.05))),
    Mutant(name="sums in another order each time", of="160", kind="llama", cell="repeat",
           families=("linear", "merged_linear"),
           switch=part("day0_kernels.basic.reference:linear", _unordered)),
    Mutant(name="fp8 scale of the neighbouring tile", of="fp8 scale of the neighbouring tile",
           kind="glm_moe_dsa", cell="formats", families=("linear", "merged_linear", "experts",
                                                        "sparse_mla", "mla", "cache_write"),
           where=lambda op: True, switch=part("day0.runtime.codes:_scaled", _neighbour)),
    Mutant(name="exponent off by one", of="121", kind="glm_moe_dsa", cell="formats",
           families=("indexer", "cache_write"), where=lambda op: op.family == "indexer",
           switch=part("day0.runtime.codes:exponent", _too_small)),
)  # fmt: skip
# Its cell is the sweep over lengths. The real one needs 2^31 elements, on a GPU.
WRAPPED = part("day0.runtime.storage:Storage.write_rows", _wrapped)
