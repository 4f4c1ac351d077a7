"""reuse, quant-rework or new: what the implementations that exist say of an op."""

from collections.abc import Callable

from day0.registry.family import Family, Impl, Shapes, Verdict

Lookup = Callable[[str], Family]


def judge(family: Family, shapes: Shapes, *, capability: tuple[int, int] | None = None) -> Verdict:
    """The verdict on one op in the formats of the chosen recipe.

    `reuse`: an optimised implementation refuses nothing. `quant-rework`: one refuses only storage
    formats. `new`: none takes the attributes, with every reason.
    """
    reasons: list[str] = []
    rework: Impl | None = None
    for impl in family.impls:
        if not impl.optimised:
            continue
        if impl.backend == "triton" and not impl.parity:
            reasons.append(f"{impl.entry}: no passing parity case is named")
            continue
        refused = list(impl.refuses_attrs(shapes))
        if capability is not None and capability < impl.min_capability:
            refused.append(f"capability {capability} (needs {impl.min_capability})")
        formats = impl.refuses_formats(shapes)
        if not refused and not formats:
            return Verdict(status="reuse", impl=f"{impl.backend}:{impl.entry}")
        if not refused and rework is None:
            rework = impl
        reasons += [f"{impl.entry}: {reason}" for reason in (*refused, *formats)]
    if rework is not None:
        name = f"{rework.backend}:{rework.entry}"
        return Verdict(status="quant-rework", impl=name, reasons=tuple(reasons))
    if any(impl.backend == "reference" for impl in family.impls):
        reasons.append("reference exists")
    if not reasons:
        reasons.append("no optimised implementation of this family")
    return Verdict(status="new", reasons=tuple(reasons))
