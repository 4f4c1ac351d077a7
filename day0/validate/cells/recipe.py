"""Cells of precision: what a recipe moves, and whether its formats hold what they promise."""

from dataclasses import dataclass

import torch

from day0.ir import format as formats
from day0.ir.recipe import RECIPES, Recipe
from day0.runtime.emulate import rounding
from day0.runtime.session import Session
from day0.validate.cell import Cell, Outcome, words_of
from day0.validate.direct import Rows
from day0.validate.subject import Subject
from day0.validate.trace import Parting, Place, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`moved`: the most that logits may move on average, as a share of how far rows of other
    positions are from each other (KL divergence both); `overlap`: the least share of selected
    entries that stay selected. Wide enough for made-up weights, whose choices of experts hang on
    less than a rounding; `--bounds` tightens kl, top-1 and overlap for trained ones."""

    moved: float
    overlap: float


BOUNDS = {"bf16": Bounds(moved=0.4, overlap=0.7), "fp8": Bounds(moved=0.7, overlap=0.5)}
# A value of E4M3 has three bits behind its first: nothing in its range is off by more.
E4M3_STEP = 2.0**-4
E4M3_MAX = 448.0
E4M3_SUBNORMAL = 2.0**-10  # half a step below the smallest normal number


def bf16(subject: Subject) -> Outcome:
    """bf16 against fp32."""
    return moved(subject, RECIPES["bf16"], RECIPES["fp32"])


def fp8(subject: Subject) -> Outcome:
    """The FP8 recipe against bf16."""
    return moved(subject, RECIPES["fp8"], RECIPES["bf16"])


def moved(subject: Subject, recipe: Recipe, base: Recipe) -> Outcome:
    """How far a recipe moves the logits of undisturbed prompts from those of another one."""
    ops = subject.model.graphs["main"].ops
    chosen = {op.outputs[0][1] for op in ops if op.family == "indexer"}
    traced, other = Trace(chosen), Trace(chosen)
    expected = subject.undisturbed(subject.session(base), traced)
    rows = subject.undisturbed(subject.session(recipe), other)
    figures = {f"kl_{recipe.name}": kl(expected, rows), f"top1_{recipe.name}": top1(expected, rows)}
    overlaps = {
        name: overlap(subject, traced, other, name)
        for name in sorted(chosen)
        if name in other.order
    }
    if overlaps:
        figures[f"index_overlap_{recipe.name}"] = min(overlaps.values())
    bounds = BOUNDS[recipe.name]
    share = figures[f"kl_{recipe.name}"] / apart(expected)
    least = min([1.0, *overlaps.values()])
    said = f"{words_of(figures)}; moved {share:.2g} of the way to another position's logits"
    if overlaps:
        said += f" ({words_of(overlaps)})"
    fine = share <= bounds.moved and least >= bounds.overlap
    place = None if fine else leap(subject, recipe, base)
    known = {name: value for name, value in figures.items() if value == value}
    if place is not None:
        said += f"; the first large step is at {place.words}"
    return Outcome(
        status="pass" if fine else "fail",
        detail=said,
        error=share if share == share else None,
        bound=bounds.moved,
        layer=None if place is None else place.op.layer,
        op="" if place is None else place.op.id,
        family="" if place is None else place.op.family,
        figures=known,
    )


def apart(expected: Rows) -> float:
    """Mean KL divergence between the logits of neighbouring positions."""
    shifted = {
        number: {at - 1: row for at, row in table.items() if at - 1 in table}
        for number, table in expected.items()
    }
    return kl(expected, shifted)


def leap(subject: Subject, recipe: Recipe, base: Recipe) -> Place | None:
    """The first op whose rows are off by more than a rounding can explain."""
    trace = Trace()
    subject.undisturbed(subject.session(base), trace)
    parting = Parting(trace, 0.25, choices=False)
    subject.undisturbed(subject.session(recipe), parting)
    return parting.first


def kl(expected: Rows, rows: Rows) -> float:
    """Mean over rows of KL(expected || found) in nats."""
    found = []
    for number, table in rows.items():
        for position, row in table.items():
            theirs = expected[number][position].log_softmax(-1)
            found.append((theirs.exp() * (theirs - row.log_softmax(-1))).sum())
    return float(torch.stack(found).mean())


def top1(expected: Rows, rows: Rows) -> float:
    """Share of rows whose likeliest id is the same."""
    same = [
        bool(row.argmax() == expected[number][position].argmax())
        for number, table in rows.items()
        for position, row in table.items()
    ]
    return sum(same) / len(same)


def overlap(subject: Subject, ours: Trace, theirs: Trace, name: str) -> float:
    """Share of selected entries that both select, over all rows that had a choice."""
    shares = []
    for number, one in subject.sequences.items():
        pair = [trace.rows(name, number, 0, len(one.ids)) for trace in (ours, theirs)]
        if pair[0] is None or pair[1] is None:
            continue
        for left, right in zip(pair[0].tolist(), pair[1].tolist(), strict=True):
            a, b = {i for i in left if i >= 0}, {i for i in right if i >= 0}
            if a:
                shares.append(len(a & b) / len(a))
    return sum(shares) / len(shares) if shares else 1.0


def rounded(subject: Subject) -> Outcome:
    """Every weight, cache entry and activation of the FP8 recipe keeps what its format promises:
    at most half a step from the value, none cut off at the top."""
    exact, narrow = subject.session(), subject.session(RECIPES["fp8"])
    checked = 0
    for row in narrow.precision.rows:
        form = formats.get(row.runs)
        one = rounding(row.runs)
        if not form.quantised or row.action == "keep" or one is None:
            continue
        if row.kind == "weight":
            value, found = exact.weight(row.name), narrow.weight(row.name)
        else:
            value = probes(subject.seed, exact.device)
            found = one(value)
        # held as codes, a weight is judged by the parity cases of the kernels that read them
        if value is None or found is None or found.dtype != torch.float32:
            continue
        checked += 1
        error = beyond(value, found)
        if error > 1.0:
            return _broken(subject, narrow, row.name, row.runs, error)
    return Outcome(
        status="pass", detail=f"{checked} values in narrow formats", error=0.0, bound=1.0
    )


def beyond(value: torch.Tensor, found: torch.Tensor) -> float:
    """The largest error in units of what E4M3 under a scale of its own allows."""
    value, found = value.float(), found.float()
    # a power of two as scale is at most twice what amax / 448 would be
    step = 2 * value.abs().amax(-1, keepdim=True).clamp_min(1e-12) / E4M3_MAX * E4M3_SUBNORMAL
    whole = 2 * value.abs().max() / E4M3_MAX * E4M3_SUBNORMAL
    allowed = value.abs() * (E4M3_STEP * (1 + 1e-3)) + torch.maximum(step, whole)
    return float(((found - value).abs() / allowed).max())


def probes(seed: int, device: torch.device) -> torch.Tensor:
    """[rows, 256]: tiles of very different sizes side by side, and largest values just below and
    above what a power of two as scale holds."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand((64, 256), generator=generator) * 0.5 + 0.4
    sizes = torch.exp2(torch.randint(-6, 7, (64, 8), generator=generator).float())
    rows = rows * sizes.repeat_interleave(32, -1)
    for number, near in enumerate((1.0, 1.0 + 2**-7, 1.0 - 2**-7, 1.25, 1.6, 1.99)):
        rows[number] = E4M3_MAX * 2.0 ** (number - 3) * near * torch.linspace(0.02, 1, 256)
    return rows.to(device)


def _broken(subject: Subject, session: Session, name: str, form: str, error: float) -> Outcome:
    for op in session.lowered["prefill"].graph.ops:
        used = {weight for _, weight in op.weights} | {use.cache for use in op.caches} | {op.id}
        if name in used or name.rpartition(".")[0] in used:
            return Outcome(
                status="fail",
                detail=f"{name} in {form} is off by {error:.3g} times what the format allows, "
                f"in layer {op.layer}, {op.family} {op.id}",
                error=error,
                bound=1.0,
                layer=op.layer,
                op=op.id,
                family=op.family,
            )
    return Outcome(status="fail", detail=f"{name} in {form} is off", error=error, bound=1.0)


def _not_narrow(subject: Subject) -> str:
    session = subject.session(RECIPES["fp8"])
    narrow = [row for row in session.precision.rows if formats.get(row.runs).quantised]
    return "" if narrow else "the FP8 recipe narrows nothing here"


CELLS = (
    Cell(id="bf16", title="fp32 ~ bf16", run=bf16),
    Cell(id="fp8", title="bf16 ~ the FP8 recipe", run=fp8, why_not=_not_narrow),
    Cell(id="formats", title="values = their narrow form", run=rounded, why_not=_not_narrow),
)
