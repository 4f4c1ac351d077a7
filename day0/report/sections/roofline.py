"""What bounds a step: every family of operators against the GPU's rates."""

from collections.abc import Mapping
from typing import Any

from day0.report.parts import Choice, Part, Table, Words, amount, share, size, whole, word


def roofline(report: Mapping[str, Any]) -> tuple[Part, ...]:
    """A table for each step to choose; () for a report without the plan."""
    plan = report["cost"].get("roofline")
    if not plan:
        return ()
    lead = (
        f"The floor of a step on {plan['gpu']} ({plan['source']}): every byte is moved once, "
        "launches are not counted and nothing is fused, so values between operators are."
    )
    options = tuple((title(step), (_step(step, plan),)) for step in plan["steps"])
    return Words(text=lead), Choice(name="roofline", options=options)


def title(step: Mapping[str, Any]) -> str:
    """In a few words."""
    if step["phase"] == "prefill":
        return f"prefill of {step['rows']:,} tokens"
    return f"decode, batch {step['rows']} at {step['length']:,} tokens"


def _step(step: Mapping[str, Any], plan: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            word(op["family"], code=True),
            whole(op["count"]),
            amount(op["flops"]),
            size(op["weight_bytes"]),
            size(op["cache_bytes"]),
            size(op["value_bytes"]),
            whole(round(op["seconds"] * 1e3, 4)),
            share(op["share"]),
            word(op["bound"]),
        )
        for op in step["ops"]
    )
    columns = ("family", "ops", "flops", "weights", "caches", "values", "ms", "share", "bound by")
    caption = f"{title(step)}: {step['seconds'] * 1e3:,.3f} ms of one {plan['gpu']}"
    if plan["num_gpus"] > 1:
        evenly = f"{step['floor_seconds'] * 1e3:,.3f} ms divided evenly over {plan['num_gpus']}"
        caption = f"{caption}, {evenly}"
    return Table(name=f"roofline-{step['name']}", columns=columns, rows=rows, caption=caption)
