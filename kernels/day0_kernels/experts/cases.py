"""Cases of the routed experts: inputs, the named shapes, what is compared and the least work."""

from functools import lru_cache
from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.experts.launch import block_m
from day0_kernels.experts.scratch import workspace_bytes
from day0_kernels.moe_route.launch import max_tiles
from day0_kernels.moe_route.reference import moe_sort
from day0_kernels.quant.reference import FP8, tile_quantised

TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0),
    # tanh is made of exponentials, with an absolute error of fp32's last bit
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=3e-6),
    # The matrix unit adds FP8 products with fewer bits than fp32, and a hidden value between two
    # codes goes either way: one step (6 %) in few elements. FP8 itself is off by 2.6e-2.
    "fp8": Tolerance(factor=2.0, peak=6.0, floor=2.5e-2),
}

_AT = "day0_kernels.experts"


def _pair(name: str, module: str, *outputs: str) -> Pair:
    return Pair(
        name=name,
        reference=f"{_AT}.reference:{name.removesuffix('_fp8')}",
        kernel=f"{_AT}.{module}:{name.removesuffix('_fp8')}",
        outputs=outputs,
    )


PAIRS = (
    _pair("experts", "whole", "y"),
    _pair("gate_up", "first", "h"),
    _pair("gate_up_fp8", "first", "h", "h_scale"),
    _pair("down", "second", "partial"),
    _pair("combine", "total", "y"),
)

SILU = {"function": "silu"}
KIMI = {"num_experts": 256, "channels": 2304, "inner": 1024}
AIR = {"num_experts": 128, "channels": 4096, "inner": 1408}
SMALL = {"num_experts": 5, "top_k": 2, "channels": 80, "inner": 48}


def _case(name: str, pair: str, tags: str = "", dtype: str = "fp32", *,
          attrs: dict[str, Any] | None = None, **dims: Any) -> Case:  # fmt: skip
    return Case(
        name=name, pair=pair, dtype=dtype, dims=dims, attrs=SILU if attrs is None else attrs,
        tags=tuple(tags.split()),
    )  # fmt: skip


FORMS = {
    "form-gelu": {"function": "gelu"},
    "form-gelu-tanh": {"function": "gelu_tanh"},
    "form-relu": {"function": "relu"},
    "form-relu2": {"function": "relu2"},
    "form-clamped": {"function": "silu", "limit": 1.0},
    "form-swigluoai": {"function": "swigluoai", "limit": 1.5, "alpha": 1.702},
    "form-situ": {"function": "situ", "beta": 4.0, "linear_beta": 25.0},
    "form-situ-unclipped": {"function": "situ", "beta": 1.0},
}


def _cases() -> tuple[Case, ...]:
    cases = [
        _case("one-token", "experts", "interpret", tokens=1, **SMALL),
        _case("few", "experts", "interpret", tokens=9, **SMALL),
        _case("bias", "experts", "interpret", tokens=9, bias=True, **SMALL),
        _case("elsewhere", "experts", "interpret", tokens=9, elsewhere=True, **SMALL),
        _case("packed", "experts", "interpret", tokens=9, packed=True, **SMALL),
        _case("many", "experts", "interpret", tokens=150, **{**SMALL, "num_experts": 2}),
        _case("presorted", "gate_up", "interpret", tokens=9, elsewhere=True, **SMALL),
        _case("one-expert", "down", "interpret", tokens=40, **{**SMALL, "num_experts": 2}),
        _case("sum", "combine", "interpret", tokens=5, elsewhere=True, **SMALL),
        *(
            _case(name, "gate_up", "interpret", attrs=form, tokens=4, **SMALL)
            for name, form in FORMS.items()
        ),
        _case("fp8-few", "gate_up_fp8", "interpret", "fp8", tokens=9,
              **{**SMALL, "channels": 144, "inner": 160}),
        _case("fp8-down", "down", "interpret", "fp8", tokens=9,
              **{**SMALL, "channels": 144, "inner": 160}),
    ]  # fmt: skip
    middle = {"num_experts": 16, "top_k": 4, "channels": 512, "inner": 384}
    for tokens in (7, 50, 150, 700, 2000):
        cases += [
            _case(f"bf16-T{tokens}", "experts", dtype="bf16", tokens=tokens, **middle),
            _case(f"fp8-T{tokens}", "experts", dtype="fp8", tokens=tokens, **middle),
            _case(f"fp8-up-T{tokens}", "gate_up_fp8", dtype="fp8", tokens=tokens,
                  **middle),
            _case(f"fp8-down-T{tokens}", "down", dtype="fp8", tokens=tokens, **middle),
        ]  # fmt: skip
    cases += [
        _case("fp8-narrow", "experts", "interpret", "fp8", narrow=True, tokens=3,
              **{**SMALL, "channels": 144, "inner": 160}),
        _case("fp8-narrow-T50", "experts", dtype="fp8", narrow=True, tokens=50, **middle),
        _case("fp8-narrow-T2000", "experts", dtype="fp8", narrow=True, tokens=2000, **middle),
        _case("bf16-bias", "experts", dtype="bf16", tokens=50, bias=True, elsewhere=True, **middle),
        _case("bf16-packed", "experts", dtype="bf16", tokens=2000, packed=True, bias=True,
              elsewhere=True, **{**middle, "channels": 640}),
        _case("fp8-640", "experts", dtype="fp8", tokens=2000, elsewhere=True,
              **{**middle, "channels": 640}),
        _case("bf16-situ-T2000", "experts", dtype="bf16", attrs=FORMS["form-situ"], tokens=2000,
              **middle),
        _case("bf16-odd", "experts", dtype="bf16", tokens=300,
              **{**middle, "channels": 328, "inner": 136}),
        _case("fp8-odd", "experts", dtype="fp8", tokens=300,
              **{**middle, "channels": 336, "inner": 208}),
        _case("bf16-situ", "experts", dtype="bf16", attrs=FORMS["form-situ"], tokens=50, **middle),
        _case("bf16-swigluoai", "experts", dtype="bf16", attrs=FORMS["form-swigluoai"], tokens=50,
              **middle),
        _case("fp32-T60", "experts", tokens=60, **middle),
    ]  # fmt: skip
    for model, shape in (("kimi", KIMI), ("air", AIR)):
        for fp8 in (False, True):
            kind = "fp8" if fp8 else "bf16"
            for tokens in (1, 32, 128, 0):
                dims = {**shape, "top_k": 8, "tokens": tokens}
                tags = "bench big graph" if tokens else "bench big"
                name = f"T{tokens}" if tokens else "prefill"
                dims |= {} if tokens else {"aligned": 256 if model == "air" else 128}
                for pair in ("gate_up_fp8" if fp8 else "gate_up", "down", "experts"):
                    stem = pair.removesuffix("_fp8").replace("_", "-")
                    cases.append(_case(f"{model}-{kind}-{stem}-{name}", pair, tags, kind, **dims))
    return tuple(cases)


CASES = _cases()


def routing(case: Case, seed: int | None = None) -> torch.Tensor:
    """Experts int32 [T, k] on the CPU; without a seed the same for equal dims."""
    dims = case.dims
    num_experts, tokens = dims["num_experts"], dims["tokens"]
    seed = num_experts * 1000 + tokens if seed is None else seed
    return _routed(num_experts, dims["top_k"], tokens, dims.get("aligned", 0), seed)


@lru_cache(maxsize=16)
def _routed(num_experts: int, top_k: int, tokens: int, aligned: int, seed: int) -> torch.Tensor:
    """`aligned`: every expert gets 1 to 3 times that many rows, as peers that pad need it."""
    generator = torch.Generator().manual_seed(seed)
    if aligned:
        sizes = torch.randint(1, 4, (num_experts,), generator=generator) * aligned
        flat = torch.repeat_interleave(torch.arange(num_experts), sizes)
        return flat[torch.randperm(len(flat), generator=generator)].view(-1, top_k).int()
    scores = torch.rand(tokens, num_experts, generator=generator)
    return scores.argsort(-1)[:, :top_k].int()


def row_dtype(case: Case) -> torch.dtype:
    """The dtype of x and y: with FP8 weights bf16, but fp32 for the interpreter."""
    if case.dtype == "fp8":
        return torch.float32 if "interpret" in case.tags else torch.bfloat16
    return DTYPES[case.dtype]


def _random(case: Case, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """All tensors of the operator, whatever the pair."""
    dims, dtype = case.dims, row_dtype(case)
    e, wide, inner = dims["num_experts"], dims["channels"], dims["inner"]

    def draw(*shape: int, size: float = 1.0, kind: torch.dtype = dtype) -> torch.Tensor:
        x = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        return (x * size).to(kind)

    # routed on the CPU: `work` counts the experts of the timed cases without a GPU
    seed = int(torch.randint(2**31, (), generator=generator, device=device))
    chosen = routing(case, None if "bench" in case.tags else seed)
    if dims.get("elsewhere"):
        own = torch.Generator().manual_seed(seed)
        chosen = torch.where(torch.rand(chosen.shape, generator=own) < 0.3, -1, chosen)
    tokens = chosen.shape[0]
    result = {
        "x": draw(tokens, wide),
        "experts": chosen.to(device),
        "weights": torch.rand(chosen.shape, generator=generator, device=device) + 0.1,
    }
    for name, (n, k) in {"gate": (inner, wide), "up": (inner, wide), "down": (wide, inner)}.items():
        if case.dtype == "fp8":
            result[name] = draw(e, n, k, kind=FP8)
            blocks = (e, -(-n // 128), -(-k // 128))
            size = torch.rand(blocks, generator=generator, device=device) + 0.5
            result[f"{name}_scale"] = size * k**-0.5
        elif dims.get("packed") and name != "down":
            both = result.get("up_gate", draw(e, 2 * n, k, size=k**-0.5))
            result["up_gate"] = both
            result[name] = both[:, :n] if name == "gate" else both[:, n:]
        else:
            result[name] = draw(e, n, k, size=k**-0.5)
        if dims.get("bias"):
            result[f"{name}_bias"] = draw(e, n)
    return result


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs are NaN."""
    dims, dtype = case.dims, row_dtype(case)
    e, top_k, wide, inner = (dims[n] for n in ("num_experts", "top_k", "channels", "inner"))
    drawn = _random(case, device, generator)
    tokens = drawn["x"].shape[0]
    rows, fp8 = tokens * top_k, case.dtype == "fp8"

    def blank(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.full(shape, float("nan"), device=device).to(kind)

    def pick(*names: str) -> dict[str, torch.Tensor]:
        return {n: drawn[n] for n in names if n in drawn}

    scales = ("gate_scale", "up_scale", "gate_bias", "up_bias")
    if case.pair == "experts":
        kept = pick("x", "experts", "weights", "gate", "up", "down", "down_bias", "down_scale",
                    *scales)  # fmt: skip
        if dims.get("narrow"):  # rows that a fused norm wrote as FP8
            q, scale = tile_quantised(kept["x"])
            kept |= {"x": q.to(FP8), "x_scale": scale.float()}
        return {**kept, "y": blank(tokens, wide), "num_experts": e, "top_k": top_k, **case.attrs}
    if case.pair == "combine":
        partial = torch.randn(rows, wide, generator=generator, device=device).to(dtype)
        return {"partial": partial, "experts": drawn["experts"], "y": blank(tokens, wide),
                "num_experts": e}  # fmt: skip
    tile = block_m(num_rows=rows, num_experts=e)
    whole = {"dtype": torch.int32, "device": device}
    order, offsets = torch.empty(rows, **whole), torch.empty(e + 1, **whole)
    most = max_tiles(num_rows=rows, num_experts=e, block_m=tile)
    tiles = torch.empty(most, 4, **whole)
    moe_sort(drawn["experts"], order, offsets, tiles, num_experts=e, block_m=tile)
    shared = {"order": order, "tiles": tiles, "block_m": tile}
    if case.pair == "down":
        h = torch.randn(rows, inner, generator=generator, device=device).to(dtype)
        extra: dict[str, Any] = {"h": h}
        if fp8:
            q, scale = tile_quantised(h)
            extra = {"h": q.to(FP8), "h_scale": scale.float()}
        return {**shared, **extra, "partial": blank(rows, wide),
                **pick("weights", "down", "down_bias", "down_scale")}  # fmt: skip
    extra = {"x": drawn["x"], "h": blank(rows, inner)}
    if fp8:
        q, scale = tile_quantised(drawn["x"])
        extra = {"x": q.to(FP8), "x_scale": scale.float(), "h": blank(rows, inner, kind=FP8),
                 "h_scale": blank(rows, -(-inner // 128), kind=torch.float32)}  # fmt: skip
    return {**shared, **extra, **pick("gate", "up", *scales), "top_k": top_k, **case.attrs}


def workspace(case: Case) -> torch.Tensor | None:
    """Scratch of the timed cases that take one."""
    if case.pair != "experts":
        return None
    dims = case.dims
    needed = workspace_bytes(
        num_tokens=routing(case).shape[0], num_experts=dims["num_experts"], top_k=dims["top_k"],
        channels=dims["channels"], inner=dims["inner"], fp8=case.dtype == "fp8",
    )  # fmt: skip
    return torch.empty(needed, dtype=torch.uint8, device="cuda")


def work(case: Case) -> Work:
    """Least bytes: weights of the experts chosen read once, rows read and written once."""
    dims = case.dims
    chosen = routing(case)
    tokens, rows, active = chosen.shape[0], chosen.numel(), len(chosen.unique())
    wide, inner, fp8 = dims["channels"], dims["inner"], case.dtype == "fp8"
    size = row_dtype(case).itemsize
    stored = 1 if fp8 else size
    matrix = active * wide * inner * stored
    unit = "fp8" if fp8 else "bf16"
    flops = 2 * rows * wide * inner
    if case.pair == "experts":
        return Work(bytes=3 * matrix + 2 * tokens * wide * size, flops=3 * flops, unit=unit)
    if case.pair == "down":
        moved = matrix + rows * inner * stored + rows * wide * size
        return Work(bytes=moved, flops=flops, unit=unit)
    if case.pair == "combine":
        return Work(bytes=(rows + tokens) * wide * size, flops=rows * wide)
    moved = 2 * matrix + tokens * wide * stored + rows * inner * stored
    return Work(bytes=moved, flops=2 * flops, unit=unit)
