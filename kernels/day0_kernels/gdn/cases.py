"""Cases of the gated delta net: inputs, named shapes, what is compared and the least work."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0),
    # operands have the outputs' resolution here, and are rounded twice on their way: 2.4 measured
    "fp16": Tolerance(factor=3.0, peak=6.0),
    # a chunked sum has other fp32 roundings than a sequential one, of the same order
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=3e-6),
}

_AT = "day0_kernels.gdn"
PAIRS = (
    Pair(
        name="prefill",
        reference=f"{_AT}.reference:gdn",
        kernel=f"{_AT}.prefill:gdn_prefill",
        outputs=("y", "state"),
        wide=("state",),
    ),
    Pair(
        name="decode",
        reference=f"{_AT}.reference:gdn_decode",
        kernel=f"{_AT}.decode:gdn_decode",
        outputs=("y", "state"),
    ),
    Pair(
        name="verify",
        reference=f"{_AT}.reference:gdn_verify",
        kernel=f"{_AT}.decode:gdn_verify",
        outputs=("y", "state"),
    ),
)


def _heads(nk: int, n: int, dk: int = 128, dv: int = 128, **more: Any) -> dict[str, Any]:
    return {"num_key_heads": nk, "num_heads": n, "head_dim": dk, "value_dim": dv, **more}


def _case(name: str, pair: str, attrs: dict[str, Any], tags: str = "", dtype: str = "bf16",
          **dims: Any) -> Case:  # fmt: skip
    return Case(name=name, pair=pair, dtype=dtype, dims=dims, attrs=attrs, tags=tuple(tags.split()))


def _prefill_cases() -> tuple[Case, ...]:
    small = _heads(1, 2, 16, 32)
    ragged = (70, 0, 1, 33)
    cases = [
        _case("one-token", "prefill", small, "interpret", "fp32", lengths=(1,)),
        _case("ragged", "prefill", small, "interpret", "fp32", lengths=ragged, carried=(0, 2)),
        _case("ragged-scale2", "prefill", _heads(2, 2, 32, 16, beta_scale=2.0), "interpret",
              "fp32", lengths=ragged, carried=(2, 3)),
        _case("strided", "prefill", small, "interpret", "fp32", lengths=(40,), fused_rows=True),
        _case("bf16-ragged", "prefill", _heads(2, 4), lengths=(300, 0, 1, 64, 65),
              carried=(0, 3)),
        _case("bf16-scale2", "prefill", _heads(1, 3, beta_scale=2.0), lengths=(300, 70),
              carried=(1,)),
        _case("fp16-ragged", "prefill", _heads(2, 4), dtype="fp16", lengths=(130, 0, 70),
              carried=(0,)),
        _case("bf16-strong", "prefill", _heads(2, 2), lengths=(300,), gate_shift=12.0),
        _case("bf16-weak", "prefill", _heads(1, 2), lengths=(2000,), gate_shift=-12.0),
        _case("bf16-repeated-keys", "prefill", _heads(2, 2), lengths=(256,), gate_shift=-4.0,
              same_keys=True),
        _case("bf16-small-values", "prefill", _heads(2, 2), lengths=(200,), value_size=1e-5),
        _case("bf16-large-values", "prefill", _heads(2, 2), lengths=(200,), value_size=1e6),
        _case("bf16-d64", "prefill", _heads(2, 4, 64, 64), lengths=(130, 200), carried=(1,)),
        _case("bf16-split", "prefill", _heads(2, 4), lengths=(4100,), carried=(0,)),
        _case("bf16-state-bf16", "prefill", _heads(1, 2), lengths=(130,), carried=(0,),
              state="bf16"),
        _case("fp32-d128", "prefill", _heads(1, 2), dtype="fp32", lengths=(100,), carried=(0,)),
    ]  # fmt: skip
    cases += [
        _case(f"Hk{nk}-Hv{n}-T{t}", "prefill", _heads(nk, n), "bench big", lengths=(t,))
        for nk, n in ((16, 32), (32, 32))
        for t in (8192, 32768, 131072)
    ]
    cases += [
        _case("Hk4-Hv8-T8192", "prefill", _heads(4, 8), "bench big", lengths=(8192,)),
        _case("Hk16-Hv32-8x1024", "prefill", _heads(16, 32), "bench big", lengths=(1024,) * 8),
    ]
    return tuple(cases)


def _decode_cases() -> tuple[Case, ...]:
    cases = [
        _case("decode-small", "decode", _heads(1, 2, 16, 32), "interpret", "fp32",
              lengths=(1, 1, 1), carried=(0, 2)),
        _case("verify-small", "verify", _heads(2, 2, 16, 32, beta_scale=2.0), "interpret", "fp32",
              lengths=(3, 3, 3), carried=(0, 2), versions=4),
        _case("decode-bf16", "decode", _heads(1, 3), lengths=(1,) * 5, carried=(0, 2)),
        _case("decode-bf16-many", "decode", _heads(16, 32), lengths=(1,) * 40,
              carried=(0, 2, 39)),
        _case("decode-bf16-d64", "decode", _heads(3, 3, 64, 64), lengths=(1,) * 5,
              carried=(0, 2)),
        _case("decode-state-bf16", "decode", _heads(1, 2), lengths=(1,) * 5, carried=(0, 2),
              state="bf16"),
        _case("verify-bf16", "verify", _heads(2, 4), lengths=(4,) * 3, carried=(0, 2), versions=4),
    ]  # fmt: skip
    cases += [
        _case(f"decode-Hk{nk}-Hv{n}-B{b}", "decode", _heads(nk, n), "bench big graph",
              lengths=(1,) * b, carried=tuple(range(b)))
        for nk, n in ((16, 32), (32, 32)) for b in (1, 32, 128, 256)
    ]  # fmt: skip
    return tuple(cases)


CASES = _prefill_cases() + _decode_cases()


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`: random tensors, outputs and unread states NaN."""
    dims, attrs, dtype = case.dims, dict(case.attrs), DTYPES[case.dtype]
    nk, n, dk, dv = (
        attrs[name] for name in ("num_key_heads", "num_heads", "head_dim", "value_dim")
    )
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
    rows = draw(tokens, 2 * nk * dk + n * dv + (8 if dims.get("fused_rows") else 0))
    q, k, v = rows[:, : 2 * nk * dk + n * dv].split((nk * dk, nk * dk, n * dv), dim=1)
    if not dims.get("fused_rows"):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    if dims.get("same_keys"):
        k = k[:1].expand_as(k).contiguous()
    tensors = {
        "q": q,
        "k": k,
        "v": v * dims.get("value_size", 1.0),
        "decay": (draw(tokens, n, kind=torch.float32) + dims.get("gate_shift", 0.0)).to(dtype),
        "beta": draw(tokens, n),
        "a_log": draw(n, kind=torch.float32) * 0.5,
        "dt_bias": draw(n, kind=torch.float32) * 0.5,
        "state": state,
        "y": empty(tokens, n * dv),
        "slot": order.to(torch.int32),
        "start": whole([5 if i in carried else 0 for i in range(sequences)]),
        **attrs,
    }
    if case.pair == "prefill":
        tensors["cu_seqlens"] = whole([sum(lengths[:i]) for i in range(sequences + 1)])
    if case.pair == "verify":
        tensors["version"] = version
    return tensors


def workspace(case: Case) -> torch.Tensor | None:
    """The scratch an engine would have planned, for the bench."""
    if case.pair != "prefill":
        return None
    from day0_kernels.gdn.prefill import workspace_bytes

    sizes = {
        name: case.attrs[name] for name in ("num_key_heads", "num_heads", "head_dim", "value_dim")
    }
    lengths = case.dims["lengths"]
    needed = workspace_bytes(
        num_tokens=sum(lengths), num_sequences=len(lengths), exact=case.dtype == "fp32", **sizes
    )
    return torch.empty(needed, dtype=torch.uint8, device="cuda")


def work(case: Case) -> Work:
    """Least bytes and operations: inputs read once, outputs written once, states in and out.

    Prefill counts the products with the state (6 dk dv per token and head) and the causal half of
    the pairs of a chunk of 64, on the matrix units.
    """
    attrs, lengths = case.attrs, case.dims["lengths"]
    nk, n, dk, dv = (
        attrs[name] for name in ("num_key_heads", "num_heads", "head_dim", "value_dim")
    )
    tokens, sequences = sum(lengths), len(lengths)
    size = DTYPES[case.dtype].itemsize
    state_size = DTYPES[case.dims.get("state", "fp32")].itemsize
    per_token = (2 * nk * dk + 2 * n * dv + 2 * n) * size
    reads = len(case.dims.get("carried", ()))
    writes = lengths[0] if case.pair == "verify" else 1
    states = n * dk * dv * state_size * (reads + sequences * writes)
    if case.pair == "prefill":
        flops = tokens * n * (6 * dk * dv + 64 * (3 * dk + 2 * dv))
        return Work(bytes=tokens * per_token + states, flops=flops, unit="bf16")
    return Work(bytes=tokens * per_token + states, flops=tokens * n * 8 * dk * dv)
