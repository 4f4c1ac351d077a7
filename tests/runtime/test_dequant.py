"""Every stored form against a formula of its own: element by element, from the codes' bits."""

import itertools
import math

import pytest
import torch

from day0.errors import NotSupported
from day0.runtime.dequant import dequantise, e8m0, nibbles, words

F8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@pytest.fixture
def generator(seed: int) -> torch.Generator:
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


def codes(generator: torch.Generator, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape, generator=generator)


def positive(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=generator) + 0.5


def packed(values: torch.Tensor, bits: int) -> torch.Tensor:
    """I32 words of one long stream of bits along the last dim, by Python's own integers."""
    rows = values.reshape(-1, values.shape[-1]).tolist()
    out = []
    for row in rows:
        stream = sum(value << (bits * place) for place, value in enumerate(row))
        count = -(-bits * len(row) // 32)
        found = [stream >> (32 * word) & 0xFFFFFFFF for word in range(count)]
        out.append([value - (1 << 32) if value >> 31 else value for value in found])
    return torch.tensor(out, dtype=torch.int32).reshape(*values.shape[:-1], -1)


def float_of(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    """A small float from its bits, without infinities (subnormals at exponent 0)."""
    bias = (1 << exponent_bits - 1) - 1
    mantissa = code & (1 << mantissa_bits) - 1
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    sign = -1.0 if code >> exponent_bits + mantissa_bits else 1.0
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


def by_hand(codes_: torch.Tensor, exponent_bits: int, mantissa_bits: int) -> torch.Tensor:
    flat = [float_of(code, exponent_bits, mantissa_bits) for code in codes_.flatten().tolist()]
    return torch.tensor(flat).reshape(codes_.shape)


def fp8(generator: torch.Generator, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(stored E4M3, its values by hand), without the two NaNs."""
    drawn = codes(generator, 256, *shape)
    drawn = torch.where(drawn % 128 == 127, drawn - 1, drawn).to(torch.uint8)
    return drawn.view(torch.float8_e4m3fn), by_hand(drawn, 4, 3)


def each(dims: tuple[int, ...]) -> itertools.product:
    return itertools.product(*map(range, dims))


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp32", "int64", "fp8_e4m3"])
def test_plain_formats_are_handed_on(name: str) -> None:
    data = torch.zeros(2, 3)
    assert dequantise(name, {"data": data}, (2, 3)) is data


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [("fp8_b4", 4, 4), ("fp8_b3x5", 3, 5), ("fp8_b4_ue8m0", 4, 4), ("fp8_b1x8", 1, 8)],
)
@pytest.mark.parametrize("lead", [(), (2,)], ids=["matrix", "stack"])
def test_fp8_blocks(
    name: str, rows: int, columns: int, lead: tuple[int, ...], generator: torch.Generator
) -> None:
    """Ragged at both ends."""
    dims = (*lead, 10, 13)
    data, values = fp8(generator, *dims)
    shape = (*lead, -(-10 // rows), -(-13 // columns))
    if name.endswith("ue8m0"):
        scale = (codes(generator, 9, *shape) + 123).to(torch.uint8)
        factors = torch.exp2(scale.float() - 127)
    else:
        scale = factors = positive(generator, *shape)
    out = dequantise(name, {"data": data, "scale": scale}, dims)
    for place in each(dims):
        *first, n, k = place
        expected = values[place] * factors[(*first, n // rows, k // columns)]
        assert out[place] == expected, place
    if not lead:
        wider = scale[:, None, :, None]  # as ModelOpt stores it
        assert torch.equal(dequantise(name, {"data": data, "scale": wider}, dims), out)


def test_e5m2_and_bf16_scales(generator: torch.Generator) -> None:
    drawn = codes(generator, 124, 6, 8).to(torch.uint8)  # below infinity
    scale = positive(generator, 6, 1).bfloat16()
    parts = {"data": drawn.view(torch.float8_e5m2), "scale": scale}
    expected = by_hand(drawn, 5, 2) * scale.float()
    assert torch.equal(dequantise("fp8_channel", parts, (6, 8)), expected)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_fp8_one_scale(shape: tuple[int, ...], generator: torch.Generator) -> None:
    data, values = fp8(generator, 5, 6)
    out = dequantise("fp8_tensor", {"data": data, "scale": torch.full(shape, 0.75)}, (5, 6))
    assert torch.equal(out, values * 0.75)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 1, 1)], ids=str)
def test_fp8_one_scale_for_each_of_a_stack(
    shape: tuple[int, ...], generator: torch.Generator
) -> None:
    data, values = fp8(generator, 3, 4, 6)
    scale = positive(generator, *shape)
    out = dequantise("fp8_tensor", {"data": data, "scale": scale}, (3, 4, 6))
    assert torch.equal(out, values * scale.reshape(3, 1, 1))


@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 1)], ids=str)
def test_fp8_one_scale_for_each_half(shape: tuple[int, ...], generator: torch.Generator) -> None:
    data, values = fp8(generator, 3, 4, 6)
    scale = positive(generator, *shape)
    out = dequantise("fp8_tensor", {"data": data, "scale": scale}, (3, 4, 6))
    for e, n in each((3, 4)):
        assert torch.equal(out[e, n], values[e, n] * scale.reshape(3, 2)[e, n // 2])


@pytest.mark.parametrize(
    ("dims", "shape"),
    [((5, 6), (5, 1)), ((5, 6), (5,)), ((2, 5, 6), (2, 5, 1)), ((2, 5, 6), (2, 1, 6))],
    ids=str,
)
def test_fp8_channels(
    dims: tuple[int, ...], shape: tuple[int, ...], generator: torch.Generator
) -> None:
    data, values = fp8(generator, *dims)
    scale = positive(generator, *shape)
    spread = scale if len(shape) == len(dims) else scale[:, None]
    out = dequantise("fp8_channel", {"data": data, "scale": scale}, dims)
    assert torch.equal(out, values * spread)


def test_e8m0_bytes() -> None:
    """Both dtypes, the smallest, one, the largest and NaN."""
    stored = torch.tensor([0, 1, 126, 127, 128, 254, 255], dtype=torch.uint8)
    for one in (stored, stored.view(torch.float8_e8m0fnu)):
        found = e8m0(one).tolist()
        assert found[:-1] == [2.0**-127, 2.0**-126, 0.5, 1.0, 2.0, 2.0**127]
        assert math.isnan(found[-1])


def test_mxfp8(generator: torch.Generator) -> None:
    data, values = fp8(generator, 3, 80)
    scale = (codes(generator, 7, 3, 3) + 124).to(torch.uint8)
    out = dequantise("mxfp8", {"data": data, "scale": scale}, (3, 80))
    for n, k in each((3, 80)):
        assert out[n, k] == values[n, k] * 2.0 ** (int(scale[n, k // 32]) - 127)


def test_e2m1_nibbles_low_first() -> None:
    """All sixteen codes (OCP MX v1.0, table 5)."""
    byte = torch.tensor([[code + (15 - code) * 16 for code in range(16)]], dtype=torch.uint8)
    out = nibbles(byte, (1, 32))
    expected = [float_of(code, 2, 1) for code in range(16)]
    assert out[0, 0::2].tolist() == expected
    assert out[0, 1::2].tolist() == expected[::-1]
    assert max(expected) == 6.0


@pytest.mark.parametrize("blocked", [False, True], ids=["flat", "blocks"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=["u8", "i8"])
def test_mxfp4(blocked: bool, dtype: torch.dtype, generator: torch.Generator) -> None:
    dims = (2, 3, 64)
    drawn = codes(generator, 16, *dims)
    data = (drawn[..., 0::2] + 16 * drawn[..., 1::2]).to(torch.uint8).view(dtype)
    scale = (codes(generator, 7, 2, 3, 2) + 124).to(torch.uint8)
    if blocked:
        data = data.reshape(2, 3, 2, 16)
    out = dequantise("mxfp4", {"data": data, "scale": scale}, dims)
    factors = torch.exp2(scale.float() - 127).repeat_interleave(32, -1)
    assert torch.equal(out, by_hand(drawn, 2, 1) * factors)


@pytest.mark.parametrize("name", ["nvfp4", "nvfp4_ct"])
@pytest.mark.parametrize("lead", [(), (3,)], ids=["matrix", "stack"])
def test_nvfp4(name: str, lead: tuple[int, ...], generator: torch.Generator) -> None:
    """One multiplies with the tensor's number, the other divides by it."""
    dims = (*lead, 4, 48)
    drawn = codes(generator, 16, *dims)
    data = (drawn[..., 0::2] + 16 * drawn[..., 1::2]).to(torch.uint8)
    scale = positive(generator, *dims[:-1], 3).to(torch.float8_e4m3fn)
    number = positive(generator, *lead) * 3
    part = "global_divisor" if name == "nvfp4_ct" else "global_scale"
    out = dequantise(name, {"data": data, "scale": scale, part: number}, dims)
    factors = scale.float().repeat_interleave(16, -1)
    second = number.reshape(*lead, 1, 1) if lead else number
    factors = factors / second if name == "nvfp4_ct" else factors * second
    torch.testing.assert_close(out, by_hand(drawn, 2, 1) * factors, rtol=1e-6, atol=0)


@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zeros"])
@pytest.mark.parametrize("name", ["int8_tensor", "int8_channel"])
def test_int8(name: str, zeros: bool, generator: torch.Generator) -> None:
    shape = (1,) if name == "int8_tensor" else (5, 1)
    parts = {
        "data": (codes(generator, 256, 5, 6) - 128).to(torch.int8),
        "scale": positive(generator, *shape),
    }
    if zeros:
        parts["zeros"] = (codes(generator, 20, *shape) - 10).to(torch.int8)
    away = parts["zeros"].float() if zeros else 0
    expected = (parts["data"].float() - away) * parts["scale"]
    assert torch.equal(dequantise(name, parts, (5, 6)), expected)


@pytest.mark.parametrize("bits", range(2, 9))
def test_words(bits: int, generator: torch.Generator) -> None:
    """Integers of any width, across the borders of words too."""
    drawn = codes(generator, 1 << bits, 3, 45)
    drawn[:, 0], drawn[:, 1] = (1 << bits) - 1, 0
    assert torch.equal(words(packed(drawn, bits), bits, 45), drawn)


@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zeros"])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, 32), (4, 0), (3, 32), (4, 24)])
def test_int_packed(bits: int, group: int, zeros: bool, generator: torch.Generator) -> None:
    """compressed-tensors: words along the inputs of a row, the last group ragged."""
    n, k = 16, 72
    size = group or k
    count = -(-k // size)
    drawn = codes(generator, 1 << bits, n, k)
    away = codes(generator, 1 << bits, n, count)
    parts = {"data": packed(drawn, bits), "scale": positive(generator, n, count)}
    if zeros:
        parts["zeros"] = packed(away.T.contiguous(), bits).T
    out = dequantise(f"int{bits}_{f'g{group}' if group else 'channel'}", parts, (n, k))
    for row, column in each((n, k)):
        zero = int(away[row, column // size]) if zeros else 1 << (bits - 1)
        expected = float(drawn[row, column] - zero) * parts["scale"][row, column // size]
        assert out[row, column] == expected, (row, column)


def test_int_packed_with_an_order_of_its_own(generator: torch.Generator) -> None:
    """weight_g_idx names the groups; filled with -1 it says nothing."""
    drawn = codes(generator, 16, 4, 64)
    order = torch.arange(2, dtype=torch.int32).repeat(32)
    parts = {"data": packed(drawn, 4), "scale": positive(generator, 4, 2)}
    out = dequantise("int4_g32", {**parts, "group_index": order}, (4, 64))
    assert torch.equal(out, (drawn - 8).float() * parts["scale"][:, order.long()])
    unused = {**parts, "group_index": torch.full((64,), -1, dtype=torch.int32)}
    assert torch.equal(
        dequantise("int4_g32", unused, (4, 64)), dequantise("int4_g32", parts, (4, 64))
    )


def test_awq(generator: torch.Generator) -> None:
    """Words along the outputs, in each word columns 0 2 4 6 1 3 5 7 from the low bits on."""
    n, k, size = 16, 12, 8
    drawn, away = codes(generator, 16, k, n), codes(generator, 16, 2, n)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def stored(values: torch.Tensor) -> torch.Tensor:
        return packed(values.unflatten(-1, (-1, 8))[..., order].flatten(-2), 4)

    scale = positive(generator, 2, n).half()
    parts = {"data": stored(drawn), "zeros": stored(away), "scale": scale}
    out = dequantise(f"awq4_g{size}", parts, (n, k))
    for row, column in each((n, k)):
        group = column // size
        expected = float(drawn[column, row] - away[group, row]) * float(scale[group, row])
        assert out[row, column] == expected


@pytest.mark.parametrize("ordered", [False, True], ids=["plain", "act_order"])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, 32), (3, 32), (2, 0), (4, 0)])
def test_gptq(bits: int, group: int, ordered: bool, generator: torch.Generator) -> None:
    """Words along the inputs; zeros are stored less one."""
    n, k = 32, 64
    size = group or k
    count = k // size
    drawn = codes(generator, 1 << bits, k, n)
    away = codes(generator, (1 << bits) - 1, count, n) + 1
    scale = positive(generator, count, n)
    parts = {
        "data": packed(drawn.T.contiguous(), bits).T,
        "zeros": packed(away - 1, bits),
        "scale": scale,
    }
    numbers = torch.arange(k) // size
    if ordered:
        numbers = numbers[torch.randperm(k, generator=generator)]
        parts["group_index"] = numbers.int()
    out = dequantise(f"gptq{bits}_{f'g{group}' if group else 'channel'}", parts, (n, k))
    expected = ((drawn - away[numbers]).float() * scale[numbers]).T
    assert torch.equal(out, expected)


def test_a_factor_on_the_inputs_goes_into_the_columns(generator: torch.Generator) -> None:
    """(x * f) W^T = x (W * f)^T."""
    data, values = fp8(generator, 3, 4)
    factor, x = positive(generator, 4).bfloat16(), positive(generator, 2, 4)
    parts = {"data": data, "scale": torch.tensor(0.5), "pre_scale": factor}
    out = dequantise("fp8_tensor", parts, (3, 4))
    torch.testing.assert_close(x @ out.T, (x * factor.float()) @ (values * 0.5).T)


@pytest.mark.parametrize("name", ["bnb4", "bnb4_nested", "bnb8", "fp8_t128", "awq8_g128"])
def test_what_nobody_taught_is_refused(name: str) -> None:
    parts = {"data": torch.zeros(8, 1, dtype=torch.uint8), "scale": torch.ones(1)}
    with pytest.raises(NotSupported, match=f"weights stored as {name} cannot be read") as caught:
        dequantise(name, parts, (4, 4))
    assert caught.value.exit_code == 4
    assert caught.value.hint
