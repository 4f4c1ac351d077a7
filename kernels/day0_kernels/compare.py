"""Error of a kernel measured against fp64 and against what eager torch makes of the same input."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from day0_kernels.case import Pair, Tolerance, converted

GUARD = 256  # poisoned elements on either side of a guarded tensor


class Mismatch(AssertionError):
    """A kernel's output is outside its bound; the message names output, coordinate and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One output of one case: relative RMS and largest error (in units of the RMS of the truth)."""

    output: str
    rms: float
    peak: float
    eager_rms: float
    eager_peak: float


def relative_errors(actual: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """(RMS of the error, largest error), both over the RMS of `truth`; equal NaN count as equal."""
    actual, truth = actual.double(), truth.double()
    known = ~truth.isnan()
    difference = torch.where(known, actual - truth, 0.0)
    count = max(int(known.sum()), 1)
    size = float(torch.where(known, truth, 0.0).square().sum() / count) ** 0.5
    largest = float(difference.abs().amax()) if difference.numel() else 0.0
    if size == 0.0:
        return float(difference.square().sum() / count) ** 0.5, largest
    return float(difference.square().sum() / count) ** 0.5 / size, largest / size


def first_mismatch(actual: torch.Tensor, truth: torch.Tensor, allowed: float) -> str:
    """Coordinate and both values of the first element off by more than `allowed`, or NaN in one."""
    actual, truth = actual.double(), truth.double()
    wrong = (actual.isnan() != truth.isnan()) | ((actual - truth).abs() > allowed)
    if not bool(wrong.any()):
        return "no single element stands out"
    at = tuple(int(i) for i in wrong.nonzero()[0])
    return (
        f"first at {at}: {float(actual[at])!r} instead of {float(truth[at])!r}, "
        f"{int(wrong.sum())} of {wrong.numel()} elements"
    )


def check(
    output: str,
    actual: torch.Tensor,
    eager: torch.Tensor,
    truth: torch.Tensor,
    tolerance: Tolerance,
) -> Error:
    """Raise `Mismatch` unless `actual` is as near to `truth` (fp64) as `tolerance` asks.

    NaN must stand exactly where it stands in `truth`: what an op must not touch is poisoned.
    """
    size = float(truth.double().nan_to_num().square().mean() ** 0.5) if truth.numel() else 0.0
    if not torch.equal(actual.isnan(), truth.isnan()):
        raise Mismatch(f"{output}: NaN misplaced; {first_mismatch(actual, truth, float('inf'))}")
    rms, peak = relative_errors(actual, truth)
    eager_rms, eager_peak = relative_errors(eager, truth)
    error = Error(output=output, rms=rms, peak=peak, eager_rms=eager_rms, eager_peak=eager_peak)
    bound = max(tolerance.factor * eager_rms, tolerance.floor)
    if not rms <= bound:
        where = first_mismatch(actual, truth, 6 * bound * size)
        raise Mismatch(f"{output}: relative RMS error {rms:.3e} exceeds {bound:.3e}; {where}")
    bound = max(tolerance.peak * eager_peak, 20 * tolerance.floor)
    if not peak <= bound:
        where = first_mismatch(actual, truth, bound * size)
        raise Mismatch(f"{output}: largest error {peak:.3e} exceeds {bound:.3e}; {where}")
    return error


def similarity_error(actual: torch.Tensor, truth: torch.Tensor) -> float:
    """1 - 2<a,b>/(|a|^2+|b|^2): free of scale, the measure for FP8 outputs; NaN gives NaN."""
    actual, truth = actual.double(), truth.double()
    total = (actual * actual + truth * truth).sum()
    return float(1 - 2 * (actual * truth).sum() / total) if float(total) else 0.0


def _poison(dtype: torch.dtype) -> float | int | bool:
    if dtype.is_floating_point:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max // 2


def guarded(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, torch.Tensor]]]:
    """Copies with the same strides inside poisoned buffers, and the (name, guard) pairs.

    A read past a tensor shows as NaN in an output, a write past it by `check_guards`.
    """
    guards: list[tuple[str, torch.Tensor]] = []

    def guard(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [guard(f"{name}{number}", one) for number, one in enumerate(value)]
        if not isinstance(value, torch.Tensor):
            return value
        extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
        extent = extent if value.numel() else 0
        buffer = value.new_full((extent + 2 * GUARD,), _poison(value.dtype))
        inner = buffer.as_strided(value.shape, value.stride(), GUARD)
        inner.copy_(value)
        guards.append((name, buffer[:GUARD]))
        guards.append((name, buffer[GUARD + extent :]))
        return inner

    return {name: guard(name, value) for name, value in arguments.items()}, guards


def check_guards(guards: list[tuple[str, torch.Tensor]]) -> None:
    """Raise `Mismatch` naming the tensor whose neighbourhood was written."""
    for name, guard in guards:
        poison = _poison(guard.dtype)
        kept = guard.isnan() if guard.dtype.is_floating_point else guard == poison
        if not bool(kept.all()):
            raise Mismatch(f"{name}: the kernel wrote outside the tensor")


def parity(
    reference: Callable[..., Any],
    kernel: Callable[..., Any],
    arguments: Mapping[str, Any],
    pair: Pair,
    tolerance: Tolerance,
    dtype: torch.dtype,
) -> tuple[Error, ...]:
    """Run truth (fp64), eager and kernel on copies of `arguments`; raise `Mismatch` or measure.

    `dtype` is that of the inputs, see `Pair.wide`.
    """
    truth, eager = converted(arguments, torch.float64), converted(arguments)
    reference(**truth)
    reference(**eager)
    actual, guards = guarded(arguments)
    kernel(**actual)
    check_guards(guards)
    for name in pair.wide:
        eager[name] = eager[name].to(dtype)
    return tuple(check(o, actual[o], eager[o], truth[o], tolerance) for o in pair.outputs)
