"""Cases of expert routing: inputs, the named shapes, what is compared and the least work."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.moe_route.launch import max_tiles, sort_workspace_bytes
from day0_kernels.moe_route.reference import best, group_limited, scores

# weights come out in fp32; the selection has to agree exactly, see `_apart`
TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0, floor=1e-6),
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=1e-6),
}

MARGIN = 1e-5  # scores closer than this, but not equal, may swap in fp32

_AT = "day0_kernels.moe_route"
_SORTED = ("order", "offsets", "tiles")
PAIRS = (
    Pair(
        name="route",
        reference=f"{_AT}.reference:moe_route",
        kernel=f"{_AT}.route:moe_route",
        outputs=("experts", "weights"),
    ),
    Pair(
        name="sort",
        reference=f"{_AT}.reference:moe_sort",
        kernel=f"{_AT}.sort:moe_sort",
        outputs=_SORTED,
    ),
    Pair(
        name="route_sort",
        reference=f"{_AT}.reference:moe_route_sort",
        kernel=f"{_AT}.route_sort:moe_route_sort",
        outputs=("experts", "weights", *_SORTED),
    ),
)


def _route(score: str, top_k: int, **more: Any) -> dict[str, Any]:
    eps = 1e-20 if score in ("sigmoid", "sqrtsoftplus") else 0.0
    renormalise = score != "topk_softmax"
    return {"score": score, "top_k": top_k, "renormalise": renormalise, "renormalise_eps": eps,
            **more}  # fmt: skip


KIMI = _route("sigmoid", 8, scale=2.446)
GROUPED = {"num_groups": 8, "top_groups": 4}


def _case(name: str, pair: str, attrs: dict[str, Any], tags: str = "", dtype: str = "fp32",
          **dims: Any) -> Case:  # fmt: skip
    return Case(name=name, pair=pair, dtype=dtype, dims=dims, attrs=attrs, tags=tuple(tags.split()))


def _cases() -> tuple[Case, ...]:
    sorting = {"num_experts": 13, "block_m": 4}
    cases = [
        _case("one-token", "route", _route("softmax", 2), "interpret", tokens=1, experts=6),
        _case("sigmoid-bias", "route", _route("sigmoid", 3, scale=2.5), "interpret", tokens=5,
              experts=20, bias=True),
        _case("sigmoid-bf16", "route", _route("sigmoid", 3), "interpret", "bf16", tokens=5,
              experts=20, bias=True),
        _case("ties", "route", _route("softmax", 4), "interpret", tokens=4, experts=12, ties=True),
        _case("groups", "route", _route("sigmoid", 4, num_groups=4, top_groups=2), "interpret",
              tokens=6, experts=24, bias=True),
        _case("groups-max", "route",
              _route("softmax", 3, num_groups=3, top_groups=1, group_score="max"), "interpret",
              tokens=3, experts=15),
        _case("sqrtsoftplus", "route", _route("sqrtsoftplus", 6, scale=1.5), "interpret", tokens=3,
              experts=32, bias=True),
        _case("topk-softmax", "route", _route("topk_softmax", 4), "interpret", tokens=3,
              experts=32),
        _case("table", "route", _route("sqrtsoftplus", 3, scale=1.5), "interpret", tokens=5,
              experts=16, vocab=40),
        _case("sort-few", "sort", sorting, "interpret", tokens=9, top_k=3),
        _case("sort-elsewhere", "sort", sorting, "interpret", tokens=9, top_k=3, elsewhere=True),
        _case("sort-many", "sort", sorting, "interpret", tokens=2100, top_k=2, elsewhere=True),
        _case("fused", "route_sort", {**_route("sigmoid", 3), "block_m": 2}, "interpret", tokens=7,
              experts=20, bias=True),
        _case("not-fused", "route_sort", {**_route("softmax", 2), "block_m": 4}, "interpret",
              tokens=33, experts=10),
        _case("kimi", "route_sort", {**KIMI, "block_m": 16}, tokens=32, experts=256, bias=True),
        _case("kimi-300", "route_sort", {**KIMI, "block_m": 16}, tokens=300, experts=256,
              bias=True),
        _case("deepseek-v3", "route", _route("sigmoid", 8, scale=2.5, **GROUPED), tokens=300,
              experts=256, bias=True),
        _case("bailing", "route", _route("sigmoid", 8, scale=2.5, **GROUPED), tokens=70,
              experts=512, bias=True),
        _case("k3", "route", _route("sigmoid", 16), tokens=70, experts=896, bias=True),
        _case("qwen3-next", "route", _route("softmax", 10), dtype="bf16", tokens=300, experts=512),
        _case("sort-8192", "sort", {"num_experts": 256, "block_m": 128}, tokens=8192, top_k=8),
    ]  # fmt: skip
    for tokens in (32, 8192):
        shape = {"tokens": tokens, "experts": 256, "bias": True}
        block = 16 if tokens == 32 else 128
        cases += [
            _case(f"route-T{tokens}", "route", KIMI, "bench big graph", **shape),
            _case(f"route-sort-T{tokens}", "route_sort", {**KIMI, "block_m": block},
                  "bench big graph", **shape),
            _case(f"groups-T{tokens}", "route", _route("sigmoid", 8, scale=2.5, **GROUPED),
                  "bench big graph", **shape),
            _case(f"k3-T{tokens}", "route", _route("sigmoid", 16), "bench big graph",
                  tokens=tokens, experts=896, bias=True),
        ]  # fmt: skip
    return tuple(cases)


CASES = _cases()


def _apart(logits: torch.Tensor, bias: torch.Tensor | None, attrs: dict[str, Any]) -> torch.Tensor:
    """Rows of `logits` whose selection rounding cannot change: gaps are 0 or above MARGIN."""
    choice = scores(logits.double(), attrs["score"])
    choice = choice if bias is None else choice + bias.double()
    groups, top = attrs.get("num_groups", 1), attrs.get("top_groups", 1)
    safe = torch.ones(logits.shape[0], dtype=torch.bool, device=logits.device)
    ordered = []
    if groups > 1:
        kind = attrs.get("group_score", "top2")
        grouped = choice.unflatten(-1, (groups, -1)).sort(dim=-1, descending=True).values
        ordered.append((grouped[..., : 2 if kind == "top2" else 1].sum(-1), top))
        choice = group_limited(choice, groups, top, kind)
    ordered.append((choice, attrs["top_k"]))
    for values, count in ordered:
        falling = values.gather(-1, best(values, count + 1))
        gaps = falling[..., :-1] - falling[..., 1:]
        safe &= ((gaps == 0) | (gaps > MARGIN)).all(-1)
    return safe


def _logits(case: Case, device: str, generator: torch.Generator,
            bias: torch.Tensor | None) -> torch.Tensor:  # fmt: skip
    dims = case.dims

    def draw() -> torch.Tensor:
        x = torch.randn(dims["tokens"], dims["experts"], generator=generator, device=device)
        # a coarse grid makes many equal scores
        return ((x * 2).round() / 2 if dims.get("ties") else x).to(DTYPES[case.dtype])

    logits = draw()
    if "vocab" in dims or "big" in case.tags:
        return logits
    for _ in range(100):
        safe = _apart(logits, bias, dict(case.attrs))
        if bool(safe.all()):
            break
        logits = torch.where(safe[:, None], logits, draw())
    return logits


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs are NaN or the least int32."""
    dims, attrs = case.dims, dict(case.attrs)
    tokens = dims["tokens"]
    top_k = attrs.get("top_k", dims.get("top_k"))
    num_experts = attrs.get("num_experts", dims.get("experts"))

    def whole(*shape: int) -> torch.Tensor:
        return torch.full(shape, -(2**31), dtype=torch.int32, device=device)

    result: dict[str, Any] = {}
    if case.pair != "sort":
        bias = None
        if dims.get("bias"):
            bias = torch.randn(num_experts, generator=generator, device=device) * 0.1
        result["logits"] = _logits(case, device, generator, bias)
        result["bias"] = bias
        result["experts"] = whole(tokens, top_k)
        result["weights"] = torch.full((tokens, top_k), float("nan"), device=device)
        if "vocab" in dims:
            rows = torch.rand(dims["vocab"], num_experts, generator=generator, device=device)
            result["table"] = rows.argsort(-1)[:, :top_k].contiguous()
            result["ids"] = torch.randint(
                dims["vocab"], (tokens,), generator=generator, device=device
            )
    else:
        low = -2 if dims.get("elsewhere") else 0
        result["experts"] = torch.randint(
            low, num_experts - low, (tokens, top_k), generator=generator, device=device
        ).to(torch.int32)
    if case.pair != "route":
        rows = tokens * top_k
        most = max_tiles(num_rows=rows, num_experts=num_experts, block_m=attrs["block_m"])
        result |= {"order": whole(rows), "offsets": whole(num_experts + 1), "tiles": whole(most, 4)}
    return {**result, **attrs}


def workspace(case: Case) -> torch.Tensor | None:
    """Scratch of the timed cases that take one."""
    if case.pair == "route":
        return None
    rows = case.dims["tokens"] * case.attrs["top_k"]
    needed = sort_workspace_bytes(num_rows=rows, num_experts=case.dims["experts"])
    return torch.empty(needed, dtype=torch.uint8, device="cuda") if needed else None


def work(case: Case) -> Work:
    """Least bytes: logits read once, experts and weights written; order and tiles likewise."""
    dims, attrs = case.dims, case.attrs
    top_k = attrs.get("top_k", dims.get("top_k"))
    rows, num_experts = dims["tokens"] * top_k, attrs.get("num_experts", dims.get("experts"))
    moved = 0
    if case.pair != "sort":
        moved += dims["tokens"] * num_experts * DTYPES[case.dtype].itemsize + rows * 8
    if case.pair != "route":
        most = max_tiles(num_rows=rows, num_experts=num_experts, block_m=attrs["block_m"])
        moved += rows * (4 if case.pair == "route_sort" else 8) + most * 16 + num_experts * 4
    return Work(bytes=moved, flops=4 * dims["tokens"] * num_experts)
