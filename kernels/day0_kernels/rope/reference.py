"""Definition of rotary embedding and of every rotary table (arXiv 2104.09864).

Sources of the scalings: transformers 5.24 modeling_rope_utils; YaRN arXiv 2309.00071; LongRoPE
arXiv 2402.13753. Rows stand for themselves: where a scaling depends on a length ("dynamic",
"longrope"), it is the row's own, position + 1, so neither batch nor chunking changes a row.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch

from day0_kernels.common.plain import wide


def frequencies(
    positions: torch.Tensor,
    dtype: torch.dtype,
    *,
    dims: int,
    theta: float,
    scaling: str,
    scaling_args: tuple[tuple[str, Any], ...],
) -> tuple[torch.Tensor, float]:
    """(angles per token [T or 1, dims/2], the factor on cosine and sine)."""
    args = dict(scaling_args)
    # [dims/2], 0 to 1: a fraction of the way from fast to slow
    fraction = torch.arange(0, dims, 2, device=positions.device).to(dtype) / dims
    plain = 1.0 / theta**fraction
    if scaling == "default":
        return plain.unsqueeze(0), 1.0
    if scaling == "linear":
        return (plain / args["factor"]).unsqueeze(0), 1.0
    if scaling == "proportional":
        return _proportional(fraction, theta, args), 1.0
    if scaling == "dynamic":
        return _dynamic(positions, fraction, dims, theta, args), 1.0
    if scaling == "llama3":
        return _llama3(plain, args).unsqueeze(0), 1.0
    if scaling == "yarn":
        return _yarn(plain, dims, theta, args).unsqueeze(0), _yarn_factor(args)
    if scaling == "longrope":
        return _longrope(positions, fraction, theta, args), _longrope_factor(args)
    raise ValueError(
        "scaling must be one of default, linear, dynamic, yarn, llama3, longrope, proportional, "
        f"got {scaling!r}"
    )


def _proportional(fraction: torch.Tensor, theta: float, args: Mapping[str, Any]) -> torch.Tensor:
    """Only the first pairs turn, at the speeds they have in the whole head; the others stand."""
    pairs = fraction.shape[0]
    turned = int(args.get("partial_rotary_factor", 1.0) * 2 * pairs // 2)
    plain = 1.0 / theta**fraction / args.get("factor", 1.0)
    return torch.where(torch.arange(pairs, device=fraction.device) < turned, plain, 0.0)[None]


def _dynamic(
    positions: torch.Tensor,
    fraction: torch.Tensor,
    dims: int,
    theta: float,
    args: Mapping[str, Any],
) -> torch.Tensor:
    """NTK: the base grows with the row's length once that exceeds the trained one."""
    trained = args["max_position_embeddings"]
    length = (positions + 1).clamp(min=trained).to(fraction.dtype)  # [T]
    stretch = args["factor"] * length / trained - (args["factor"] - 1)
    base = theta * stretch ** (dims / (dims - 2))  # [T]
    return 1.0 / base.unsqueeze(1) ** fraction  # [T, dims/2]


def _llama3(plain: torch.Tensor, args: Mapping[str, Any]) -> torch.Tensor:
    """Slow pairs interpolated, fast ones kept, a linear blend between."""
    low, high = args["low_freq_factor"], args["high_freq_factor"]
    turns = args["original_max_position_embeddings"] * plain / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return plain * (keep + (1 - keep) / args["factor"])


def _stretch(args: Mapping[str, Any]) -> float:
    """The stated factor, or the ratio of the two lengths."""
    if args.get("factor") is not None:
        return args["factor"]
    return args["max_position_embeddings"] / args["original_max_position_embeddings"]


def _yarn(plain: torch.Tensor, dims: int, theta: float, args: Mapping[str, Any]) -> torch.Tensor:
    """Interpolated where a pair turns less than beta_slow times over the original length, kept
    where it turns more than beta_fast times; `truncate` widens the ramp to whole pairs."""
    original = args["original_max_position_embeddings"]

    def pair_of(turns: float) -> float:
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_of(args.get("beta_fast") or 32), pair_of(args.get("beta_slow") or 1)
    if args.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    number = torch.arange(dims // 2, device=plain.device).to(plain.dtype)
    interpolated = ((number - low) / (high - low)).clamp(0, 1)
    return plain / _stretch(args) * interpolated + plain * (1 - interpolated)


def _yarn_factor(args: Mapping[str, Any]) -> float:
    """As stated; or the quotient of the two mscale corrections, or the one of the factor."""
    if args.get("attention_factor") is not None:
        return float(args["attention_factor"])
    factor = _stretch(args)

    def correction(mscale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0

    mscale, all_dim = args.get("mscale"), args.get("mscale_all_dim")
    if mscale and all_dim:
        return correction(mscale) / correction(all_dim)
    return correction(1.0)


def _longrope(
    positions: torch.Tensor, fraction: torch.Tensor, theta: float, args: Mapping[str, Any]
) -> torch.Tensor:
    """Divisors per pair: one list up to the original length, one beyond it."""

    def table(name: str) -> torch.Tensor:
        divisors = torch.tensor(args[name], dtype=fraction.dtype, device=fraction.device)
        return 1.0 / (divisors * theta**fraction)

    long = (positions + 1 > args["original_max_position_embeddings"]).unsqueeze(1)  # [T, 1]
    return torch.where(long, table("long_factor"), table("short_factor"))


def _longrope_factor(args: Mapping[str, Any]) -> float:
    if args.get("attention_factor") is not None:
        return float(args["attention_factor"])
    factor = _stretch(args)
    if factor <= 1:
        return 1.0
    return math.sqrt(1 + math.log(factor) / math.log(args["original_max_position_embeddings"]))


def rotated(
    x: torch.Tensor,
    positions: torch.Tensor,
    log_frequency: torch.Tensor | None = None,
    *,
    dims: int,
    place: str,
    pairing: str,
    inverse: bool,
    theta: float,
    scaling: str,
    scaling_args: tuple[tuple[str, Any], ...],
) -> torch.Tensor:
    """x [T, n, d] with `dims` channels of each head turned; in x's type, which must be wide."""
    speed, factor = frequencies(
        positions, x.dtype, dims=dims, theta=theta, scaling=scaling, scaling_args=scaling_args
    )
    if log_frequency is not None:
        speed = speed * log_frequency.to(x.dtype).exp()
    angle = (positions.to(x.dtype).unsqueeze(1) * speed).unsqueeze(1)  # [T, 1, dims/2]
    cos, sin = angle.cos() * factor, angle.sin() * factor
    sin = -sin if inverse else sin
    start = 0 if place == "first" else x.shape[-1] - dims
    part = x[..., start : start + dims]
    if pairing == "half":
        a, b = part[..., : dims // 2], part[..., dims // 2 :]
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    elif pairing == "interleaved":
        a, b = part[..., 0::2], part[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        raise ValueError(f"pairing must be one of half, interleaved, got {pairing!r}")
    return torch.cat((x[..., :start], turned, x[..., start + dims :]), dim=-1)


def rope(
    x: torch.Tensor,
    y: torch.Tensor,
    positions: torch.Tensor,
    log_frequency: torch.Tensor | None = None,
    *,
    theta: float,
    scaling: str = "default",
    scaling_args: tuple[tuple[str, Any], ...] = (),
    num_heads: int,
    dims: int,
    place: str = "first",
    pairing: str,
    inverse: bool = False,
) -> None:
    """y [T, n*d] = x with `dims` channels of each head turned by the row's position.

    `place`: at the head's start or end. `pairing`: channels (i, i + dims/2) or (2i, 2i + 1); a
    turned pair stays where it was. `inverse`: turned back (times the same factor). log_frequency
    [dims/2]: learned, its exponential multiplies the speeds (Mistral Large 4).
    """
    heads = x.to(wide(x)).view(x.shape[0], num_heads, -1)  # [T, n, d]
    turned = rotated(
        heads, positions, log_frequency,
        dims=dims, place=place, pairing=pairing, inverse=inverse,
        theta=theta, scaling=scaling, scaling_args=scaling_args,
    )  # fmt: skip
    y.copy_(turned.flatten(1))
