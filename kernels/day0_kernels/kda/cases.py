"""Cases of KDA: inputs, the named shapes, what is compared and the least work of each."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0),
    "fp16": Tolerance(factor=2.0, peak=6.0),
    # a chunked sum has other fp32 roundings than a sequential one, of the same order
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=3e-6),
}

_AT = "day0_kernels.kda"
PAIRS = (
    Pair(
        name="prefill",
        reference=f"{_AT}.reference:kda_prefill",
        kernel=f"{_AT}.prefill:kda_prefill",
        outputs=("o", "state"),
        wide=("state",),
    ),
    Pair(
        name="segment",
        reference=f"{_AT}.reference:kda_segment",
        kernel=f"{_AT}.segment:kda_segment",
        outputs=("transition_a", "transition_b"),
        wide=("transition_a", "transition_b"),
    ),
    Pair(
        name="decode",
        reference=f"{_AT}.reference:kda_decode",
        kernel=f"{_AT}.decode:kda_decode",
        outputs=("o", "state"),
    ),
    Pair(
        name="verify",
        reference=f"{_AT}.reference:kda_verify",
        kernel=f"{_AT}.decode:kda_verify",
        outputs=("o", "state"),
    ),
    Pair(
        name="decode_fused",
        reference=f"{_AT}.reference:kda_decode_fused",
        kernel=f"{_AT}.decode_fused:kda_decode_fused",
        outputs=("o", "state", "tail"),
    ),
)

BOUNDED = {"decay": "bounded", "lower_bound": -5.0}
SOFTPLUS = {"decay": "softplus", "lower_bound": None}


def _heads(n: int, dk: int = 128, dv: int = 128, **form: Any) -> dict[str, Any]:
    return {"num_heads": n, "head_dim": dk, "value_dim": dv, **(form or BOUNDED)}


def _case(name: str, pair: str, attrs: dict[str, Any], tags: str = "", dtype: str = "bf16",
          **dims: Any) -> Case:  # fmt: skip
    return Case(name=name, pair=pair, dtype=dtype, dims=dims, attrs=attrs, tags=tuple(tags.split()))


def _prefill_cases() -> tuple[Case, ...]:
    small = _heads(2, 16, 32)
    soft = _heads(2, 32, 16, **SOFTPLUS)
    ragged = (70, 0, 1, 33)
    cases = [
        _case("one-token", "prefill", small, "interpret", "fp32", lengths=(1,)),
        _case("short-tile", "prefill", soft, "interpret", "fp32", lengths=(13,)),
        _case("ragged", "prefill", small, "interpret", "fp32", lengths=ragged, carried=(0, 2)),
        _case("ragged-softplus", "prefill", soft, "interpret", "fp32", lengths=ragged,
              carried=(2, 3)),
        _case("strided", "prefill", small, "interpret", "fp32", lengths=(40,), fused_rows=True),
        _case("bf16-ragged", "prefill", _heads(3), lengths=(300, 0, 1, 64, 65), carried=(0, 3)),
        _case("bf16-softplus", "prefill", _heads(3, **SOFTPLUS), lengths=(300, 70), carried=(1,)),
        _case("bf16-strong", "prefill", _heads(2, **SOFTPLUS), lengths=(300,), gate_shift=12.0),
        _case("bf16-weak", "prefill", _heads(2), lengths=(2000,), gate_shift=-12.0),
        _case("bf16-repeated-keys", "prefill", _heads(2), lengths=(256,), gate_shift=-2.0,
              same_keys=True),
        _case("bf16-small-values", "prefill", _heads(2), lengths=(200,), value_size=1e-5),
        _case("bf16-large-values", "prefill", _heads(2), lengths=(200,), value_size=1e6),
        _case("bf16-d64", "prefill", _heads(4, 64, 64), lengths=(130, 200), carried=(1,)),
        _case("bf16-split", "prefill", _heads(4), lengths=(4100,), carried=(0,)),
        _case("bf16-split-softplus", "prefill", _heads(4, **SOFTPLUS), lengths=(4100,)),
        _case("bf16-state-bf16", "prefill", _heads(2), lengths=(130,), carried=(0,),
              state="bf16"),
        _case("fp32-d128", "prefill", _heads(2), dtype="fp32", lengths=(100,), carried=(0,)),
    ]  # fmt: skip
    cases += [
        _case("segment", "segment", small, "interpret", "fp32", lengths=ragged),
        _case("segment-bf16", "segment", _heads(3), lengths=(300, 0, 65)),
        _case("segment-bf16-softplus", "segment", _heads(2, **SOFTPLUS), lengths=(130,)),
        _case("segment-H64-T8192", "segment", _heads(64), "bench big", lengths=(8192,)),
    ]
    for heads, lengths in ((32, (8192, 32768, 131072)), (64, (8192, 32768, 131072)),
                           (96, (8192, 32768)), (8, (8192, 32768))):  # fmt: skip
        cases += [
            _case(f"H{heads}-T{t}", "prefill", _heads(heads), "bench big", lengths=(t,))
            for t in lengths
        ]
    cases += [
        _case("H32-8x1024", "prefill", _heads(32), "bench big", lengths=(1024,) * 8),
        _case("H32-T8192-softplus", "prefill", _heads(32, **SOFTPLUS), "bench big",
              lengths=(8192,)),
    ]  # fmt: skip
    return tuple(cases)


def _decode_cases() -> tuple[Case, ...]:
    cases = [
        _case("decode-small", "decode", _heads(2, 16, 32), "interpret", "fp32",
              lengths=(1, 1, 1), carried=(0, 2)),
        _case("decode-softplus", "decode", _heads(2, 32, 16, **SOFTPLUS), "interpret", "fp32",
              lengths=(1, 1), carried=(1,)),
        _case("verify-small", "verify", _heads(2, 16, 32), "interpret", "fp32",
              lengths=(3, 3, 3), carried=(0, 2), versions=4),
        _case("fused-small", "decode_fused", _heads(2, 16, 32), "interpret", "fp32",
              lengths=(1, 1, 1), carried=(0, 2), width=4),
        _case("fused-width2", "decode_fused", _heads(2, 16, 16, **SOFTPLUS), "interpret", "fp32",
              lengths=(1, 1), carried=(1,), width=2),
        _case("fused-tiles", "decode_fused", _heads(1, 16, 64), "interpret", "fp32",
              lengths=(1, 1, 1), carried=(0, 2), width=4),
        _case("decode-bf16", "decode", _heads(3), lengths=(1,) * 5, carried=(0, 2)),
        _case("decode-bf16-many", "decode", _heads(32), lengths=(1,) * 40, carried=(0, 2, 39)),
        _case("decode-bf16-d64", "decode", _heads(3, 64, 64), lengths=(1,) * 5, carried=(0, 2)),
        _case("decode-state-bf16", "decode", _heads(3), lengths=(1,) * 5, carried=(0, 2),
              state="bf16"),
        _case("verify-bf16", "verify", _heads(3, **SOFTPLUS), lengths=(4,) * 3, carried=(0, 2),
              versions=4),
        _case("fused-bf16", "decode_fused", _heads(6), lengths=(1,) * 5, carried=(0, 2), width=4),
        _case("fused-bf16-d64", "decode_fused", _heads(3, 64, 64, **SOFTPLUS), lengths=(1,) * 5,
              carried=(0, 2), width=4),
    ]  # fmt: skip
    for heads in (32, 64):
        cases += [
            _case(f"decode-H{heads}-B{b}", "decode", _heads(heads), "bench big graph",
                  lengths=(1,) * b, carried=tuple(range(b)))
            for b in (1, 32, 128, 256)
        ]  # fmt: skip
    for heads in (32, 48, 96):
        cases += [
            _case(f"fused-H{heads}-B{b}", "decode_fused", _heads(heads), "bench big graph",
                  lengths=(1,) * b, carried=tuple(range(b)), width=4)
            for b in (1, 32, 128, 256)
        ]  # fmt: skip
    return tuple(cases)


CASES = _prefill_cases() + _decode_cases()


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`: random tensors, outputs and unread states NaN."""
    dims, attrs, dtype = case.dims, dict(case.attrs), DTYPES[case.dtype]
    n, dk, dv = attrs["num_heads"], attrs["head_dim"], attrs["value_dim"]
    lengths = dims["lengths"]
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
    state_dtype = DTYPES[dims.get("state", "fp32")]
    versions = (dims["versions"],) if "versions" in dims else ()
    state = empty(slots, *versions, n, dk, dv, kind=state_dtype)
    version = whole([(i + 1) % versions[0] if versions else 0 for i in range(sequences)])
    for i in carried:
        at = (order[i], version[i]) if versions else (order[i],)
        state[at] = draw(n, dk, dv, kind=state_dtype) * 0.3
    shared = {
        "gate": (draw(tokens, n * dk, kind=torch.float32) + dims.get("gate_shift", 0.0)).to(dtype),
        "beta": draw(tokens, n),
        "a_log": draw(n + 3, kind=torch.float32) * 0.5,
        "dt_bias": draw(n * dk, kind=torch.float32) * 0.5,
        "state": state,
        "o": empty(tokens, n * dv),
        "slot": order.to(torch.int32),
        "start": whole([5 if i in carried else 0 for i in range(sequences)]),
        **attrs,
    }
    if case.pair == "decode_fused":
        channels, width = n * (2 * dk + dv), dims["width"]
        tail = empty(slots, width - 1, channels)
        for i in carried:
            tail[order[i]] = draw(width - 1, channels)
        return {
            "x": draw(tokens, channels),
            "conv_weight": draw(channels, 1, width, kind=torch.float32) * 0.5,
            "tail": tail,
            "norm_gate": draw(tokens, n * dv),
            "norm_weight": draw(dv, kind=torch.float32) * 0.2 + 1.0,
            **shared,
        }
    rows = draw(tokens, n * (2 * dk + dv) + (8 if dims.get("fused_rows") else 0))
    q, k, v = rows[:, : n * (2 * dk + dv)].split((n * dk, n * dk, n * dv), dim=1)
    if not dims.get("fused_rows"):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    if dims.get("same_keys"):
        k = k[:1].expand_as(k).contiguous()
    tensors = {"q": q, "k": k, "v": v * dims.get("value_size", 1.0), **shared}
    borders = whole([sum(lengths[:i]) for i in range(sequences + 1)])
    if case.pair == "prefill":
        tensors["cu_seqlens"] = borders
    if case.pair == "segment":
        unused = ("q", "o", "state", "slot", "start")
        return {name: value for name, value in tensors.items() if name not in unused} | {
            "transition_a": empty(sequences, n, dk, dk, kind=torch.float32),
            "transition_b": empty(sequences, n, dk, dv, kind=torch.float32),
            "cu_seqlens": borders,
        }
    if case.pair == "verify":
        tensors["version"] = version
    return tensors


def workspace(case: Case) -> torch.Tensor | None:
    """The scratch an engine would have planned, for the bench."""
    if case.pair not in ("prefill", "segment"):
        return None
    from day0_kernels.kda.prefill import workspace_bytes

    attrs, lengths = case.attrs, case.dims["lengths"]
    needed = workspace_bytes(
        num_tokens=sum(lengths), num_sequences=len(lengths), num_heads=attrs["num_heads"],
        head_dim=attrs["head_dim"], value_dim=attrs["value_dim"],
        exact=case.dtype == "fp32", lower_bound=attrs["lower_bound"],
    )  # fmt: skip
    return torch.empty(needed, dtype=torch.uint8, device="cuda")


def work(case: Case) -> Work:
    """Least bytes and operations: inputs read once, outputs written once, states in and out.

    Prefill counts the products with the state (6 dk dv per token and head) and the causal half of
    the pairs of a chunk of 64, on the matrix units.
    """
    attrs, lengths = case.attrs, case.dims["lengths"]
    n, dk, dv = attrs["num_heads"], attrs["head_dim"], attrs["value_dim"]
    tokens, sequences = sum(lengths), len(lengths)
    size = DTYPES[case.dtype].itemsize
    state_size = DTYPES[case.dims.get("state", "fp32")].itemsize
    per_token = n * (3 * dk + 2 * dv) * size + n * size
    reads = len(case.dims.get("carried", ()))
    writes = case.dims["lengths"][0] if case.pair == "verify" else 1
    states = n * dk * dv * state_size * (reads + sequences * writes)
    if case.pair == "prefill":
        flops = tokens * n * (6 * dk * dv + 64 * (3 * dk + 2 * dv))
        return Work(bytes=tokens * per_token + states, flops=flops, unit="bf16")
    if case.pair == "segment":  # the state's products for dk + dv columns, without the queries
        moved = tokens * n * (2 * dk + dv + 1) * size + sequences * n * dk * (dk + dv) * 4
        flops = tokens * n * (4 * dk * (dk + dv) + 64 * (2 * dk + dv))
        return Work(bytes=moved, flops=flops, unit="bf16")
    if case.pair == "decode_fused":
        channels, width = n * (2 * dk + dv), case.dims["width"]
        moved = tokens * size * (channels * (2 * width - 1) + n * (dk + 2 * dv) + n)
        moved += channels * width * 4
        return Work(bytes=moved + states, flops=tokens * n * 8 * dk * dv)
    return Work(bytes=tokens * per_token + states, flops=tokens * n * 8 * dk * dv)
