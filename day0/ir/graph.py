"""The dataflow of one forward step, and the model that owns it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from day0.ir.cache import CacheSpec
from day0.ir.fact import Fact, Finding
from day0.ir.op import Op
from day0.ir.rows import Rows
from day0.ir.schedule import Schedule
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Ops in program order; `values` gives the spec of every value name; without a `schedule` the
    ops run one after another."""

    rows: tuple[Rows, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, TensorSpec]
    ops: tuple[Op, ...]
    schedule: Schedule | None = None

    def producers(self) -> dict[str, Op]:
        """Value name -> the op that yields it."""
        return {value: op for op in self.ops for _, value in op.outputs}

    def users(self) -> dict[str, tuple[Op, ...]]:
        """Value name -> ops that read it, in program order."""
        table: dict[str, list[Op]] = {}
        for op in self.ops:
            for value in dict.fromkeys(value for _, value in op.inputs):
                table.setdefault(value, []).append(op)
        return {value: tuple(ops) for value, ops in table.items()}

    def check(self) -> None:
        """Raise ValueError unless every value is defined once, before its first use."""
        defined = set(self.inputs)
        for op in self.ops:
            for slot, value in op.inputs:
                if value not in defined:
                    raise ValueError(f"{op.id}: input {slot} reads {value}, which no op yields yet")
            for slot, value in op.outputs:
                if value in defined:
                    raise ValueError(f"{op.id}: output {slot} yields {value} a second time")
                defined.add(value)
        missing = [value for value in self.outputs if value not in defined]
        if missing:
            raise ValueError(f"graph outputs that no op yields: {missing}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tensors explained by their role and never executed (vision tower, unused draft).

    `tensors`: the names it takes, from the headers. `params` and `bytes` are logical elements and
    stored bytes.
    """

    name: str
    role: str
    tensors: tuple[str, ...] = ()
    params: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a checkpoint is: `graphs` holds "main" and the drafts ("mtp"), which share weights and
    caches by name. `spec` is a mechanisms.spec.ModelSpec (kept opaque here: ir imports no room)."""

    spec: Any
    graphs: Mapping[str, Graph]
    weights: Mapping[str, Weight]
    caches: Mapping[str, CacheSpec]
    groups: tuple[Group, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
