"""reuse, quant-rework or new: what the implementations that exist say of an op."""

from day0.registry.family import Family, Impl, Shapes, Verdict

PHASES = ("prefill", "decode")


def judge(family: Family, shapes: Shapes, *, capability: tuple[int, int] | None = None) -> Verdict:
    """The verdict on one op in the formats of the chosen recipe.

    `reuse`: in every phase an optimised implementation refuses nothing. `quant-rework`: where none
    takes it, one refuses only storage formats. `new`: in some phase none takes the attributes; all
    reasons are listed. `capability`: of the stated GPU, or None to leave it open.
    """
    takers: list[str] = []
    reasons: list[str] = []
    only_formats = True
    for phase in PHASES:
        taken, why, rework = _ask(family, shapes, phase, capability)
        if taken:
            takers.append(taken)
            continue
        reasons += [reason for reason in why if reason not in reasons]
        only_formats = only_formats and bool(rework)
        takers.append(rework)
    names = " + ".join(dict.fromkeys(name for name in takers if name))
    if not reasons and all(takers):
        return Verdict(status="reuse", impl=names)
    if only_formats:
        return Verdict(status="quant-rework", impl=names, reasons=tuple(reasons))
    if any(impl.backend == "reference" for impl in family.impls):
        reasons.append("reference exists")
    if not reasons:
        reasons.append("no optimised implementation of this family")
    return Verdict(status="new", reasons=tuple(reasons))


def _ask(
    family: Family, shapes: Shapes, phase: str, capability: tuple[int, int] | None
) -> tuple[str, list[str], str]:
    """(the implementation that takes the op, else ""; reasons; one that refuses formats only)."""
    reasons: list[str] = []
    rework = ""
    for impl in family.impls:
        if not impl.optimised or phase not in impl.phases:
            continue
        name = f"{impl.backend}:{impl.entry}"
        if impl.backend == "triton" and not impl.parity:
            reasons.append(f"{impl.entry}: no passing parity case is named")
            continue
        refused = _unfit(impl, shapes, capability)
        formats = impl.refuses_formats(shapes)
        if not refused and not formats:
            return name, [], ""
        if not refused and not rework:
            rework = name
        reasons += [f"{impl.entry}: {reason}" for reason in (*refused, *formats)]
    optimised = [impl for impl in family.impls if impl.optimised]
    if optimised and not any(phase in impl.phases for impl in optimised):
        reasons.append(f"no optimised implementation for {phase}")
    return "", reasons, rework


def refusals(
    impl: Impl, shapes: Shapes, capability: tuple[int, int] | None = None
) -> tuple[str, ...]:
    """All reasons of one implementation against an op; () when it takes it."""
    return (*_unfit(impl, shapes, capability), *impl.refuses_formats(shapes))


def _unfit(impl: Impl, shapes: Shapes, capability: tuple[int, int] | None) -> list[str]:
    refused = list(impl.refuses_attrs(shapes))
    if capability is not None and capability < impl.min_capability:
        refused.append(f"capability {capability} (needs {impl.min_capability})")
    return refused
