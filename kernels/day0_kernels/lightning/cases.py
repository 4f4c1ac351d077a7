"""Cases of lightning attention: inputs, named shapes, what is compared and the least work."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0),
    # a chunked sum has other fp32 roundings than a sequential one, of the same order
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=3e-6),
}

_AT = "day0_kernels.lightning"
PAIRS = (
    Pair(
        name="prefill",
        reference=f"{_AT}.reference:lightning",
        kernel=f"{_AT}.prefill:lightning_prefill",
        outputs=("y", "state"),
        wide=("state",),
    ),
    Pair(
        name="decode",
        reference=f"{_AT}.reference:lightning_decode",
        kernel=f"{_AT}.decode:lightning_decode",
        outputs=("y", "state"),
    ),
)


def _heads(n: int, d: int = 128, slope_scale: float = 0.8) -> dict[str, Any]:
    return {"num_heads": n, "head_dim": d, "slope_scale": slope_scale}


def _case(name: str, pair: str, attrs: dict[str, Any], tags: str = "", dtype: str = "bf16",
          **dims: Any) -> Case:  # fmt: skip
    return Case(name=name, pair=pair, dtype=dtype, dims=dims, attrs=attrs, tags=tuple(tags.split()))


def _prefill_cases() -> tuple[Case, ...]:
    small = _heads(2, 16)
    ragged = (70, 0, 1, 33)
    cases = [
        _case("one-token", "prefill", small, "interpret", "fp32", lengths=(1,)),
        _case("ragged", "prefill", small, "interpret", "fp32", lengths=ragged, carried=(0, 2)),
        _case("strided", "prefill", _heads(3, 32, 0.01), "interpret", "fp32", lengths=(40,),
              fused_rows=True),
        _case("bf16-ragged", "prefill", _heads(4), lengths=(300, 0, 1, 64, 65), carried=(0, 3)),
        _case("bf16-strong", "prefill", _heads(2, slope_scale=1.25), lengths=(300,)),
        _case("bf16-weak", "prefill", _heads(2, slope_scale=1e-5), lengths=(2000,)),
        _case("bf16-d64", "prefill", _heads(4, 64), lengths=(130, 200), carried=(1,)),
        _case("bf16-split", "prefill", _heads(4), lengths=(4100,), carried=(0,)),
        _case("bf16-small-values", "prefill", _heads(2), lengths=(200,), value_size=1e-5),
        _case("bf16-large-values", "prefill", _heads(2), lengths=(200,), value_size=1e6),
        _case("bf16-state-bf16", "prefill", _heads(2), lengths=(130,), carried=(0,), state="bf16"),
        _case("fp32-d128", "prefill", _heads(2), dtype="fp32", lengths=(100,), carried=(0,)),
    ]  # fmt: skip
    cases += [
        _case(f"H{n}-T{t}", "prefill", _heads(n), "bench big", lengths=(t,))
        for n, t in ((64, 8192), (64, 32768), (8, 8192), (8, 32768))
    ]
    cases += [_case("H64-8x1024", "prefill", _heads(64), "bench big", lengths=(1024,) * 8)]
    return tuple(cases)


def _decode_cases() -> tuple[Case, ...]:
    cases = [
        _case("decode-small", "decode", _heads(2, 16), "interpret", "fp32", lengths=(1, 1, 1),
              carried=(0, 2)),
        _case("decode-bf16", "decode", _heads(3), lengths=(1,) * 5, carried=(0, 2)),
        _case("decode-bf16-many", "decode", _heads(64), lengths=(1,) * 40, carried=(0, 2, 39)),
        _case("decode-bf16-d64", "decode", _heads(3, 64), lengths=(1,) * 5, carried=(0, 2)),
        _case("decode-state-bf16", "decode", _heads(3), lengths=(1,) * 5, carried=(0, 2),
              state="bf16"),
    ]  # fmt: skip
    cases += [
        _case(f"decode-H64-B{b}", "decode", _heads(64), "bench big graph", lengths=(1,) * b,
              carried=tuple(range(b)))
        for b in (1, 32, 128, 256)
    ]  # fmt: skip
    return tuple(cases)


CASES = _prefill_cases() + _decode_cases()


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`: random tensors, outputs and unread states NaN."""
    dims, attrs, dtype = case.dims, dict(case.attrs), DTYPES[case.dtype]
    n, d, lengths = attrs["num_heads"], attrs["head_dim"], dims["lengths"]
    tokens, sequences = sum(lengths), len(lengths)

    def draw(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(kind)

    def whole(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    def empty(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.full(shape, float("nan"), device=device, dtype=kind)

    carried = dims.get("carried", ())
    slots = sequences + 2
    order = torch.randperm(slots - 1, generator=generator, device=device)[:sequences] + 1
    kind = DTYPES[dims.get("state", "fp32")]
    state = empty(slots, n, d, d, kind=kind)
    for i in carried:
        state[order[i]] = draw(n, d, d, kind=kind) * 0.3
    rows = draw(tokens, 3 * n * d + (8 if dims.get("fused_rows") else 0))
    q, k, v = rows[:, : 3 * n * d].split(n * d, dim=1)
    if not dims.get("fused_rows"):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    tensors = {
        "q": q,
        "k": k,
        "v": v * dims.get("value_size", 1.0),
        "state": state,
        "y": empty(tokens, n * d),
        "slot": order.to(torch.int32),
        "start": whole([5 if i in carried else 0 for i in range(sequences)]),
        **attrs,
    }
    if case.pair == "prefill":
        tensors["cu_seqlens"] = whole([sum(lengths[:i]) for i in range(sequences + 1)])
    return tensors


def workspace(case: Case) -> torch.Tensor | None:
    """The scratch an engine would have planned, for the bench."""
    if case.pair != "prefill":
        return None
    from day0_kernels.lightning.prefill import workspace_bytes

    lengths = case.dims["lengths"]
    needed = workspace_bytes(
        num_tokens=sum(lengths), num_sequences=len(lengths), exact=case.dtype == "fp32",
        num_heads=case.attrs["num_heads"], head_dim=case.attrs["head_dim"],
    )  # fmt: skip
    return torch.empty(needed, dtype=torch.uint8, device="cuda")


def work(case: Case) -> Work:
    """Least bytes and operations: inputs read once, outputs written once, states in and out.

    Prefill counts the products with the state (4 d^2 per token and head) and the causal half of
    the pairs of a chunk of 64, on the matrix units.
    """
    n, d, lengths = case.attrs["num_heads"], case.attrs["head_dim"], case.dims["lengths"]
    tokens, sequences = sum(lengths), len(lengths)
    per_token = 4 * n * d * DTYPES[case.dtype].itemsize
    states = n * d * d * DTYPES[case.dims.get("state", "fp32")].itemsize
    moved = tokens * per_token + states * (len(case.dims.get("carried", ())) + sequences)
    if case.pair == "prefill":
        return Work(bytes=moved, flops=tokens * n * (4 * d * d + 2 * 64 * d), unit="bf16")
    return Work(bytes=moved, flops=tokens * n * 5 * d * d)
