"""Cases and pairs: what parity, bench and validation walk, as plain data."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

DTYPES = MappingProxyType(
    {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
        "fp8": torch.float8_e4m3fn,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One named input shape of one pair.

    `dims` are sizes for `inputs` (a ragged batch gives `lengths`); `attrs` are passed on to the
    entry as they are. Tags: `interpret` (fp32 logic, small enough for the CPU interpreter), `bench`
    (timed), `big` (gigabytes of memory; no reference run).
    """

    name: str
    pair: str
    dtype: str = "bf16"
    dims: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", MappingProxyType(dict(self.dims)))
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A definition and a kernel with the same signature, as "module:name", imported at use.

    `wide` names the outputs kept in a wider dtype than the inputs although their terms went
    through products of the input dtype's accuracy; eager torch is then taken at that accuracy too.
    """

    name: str
    reference: str
    kernel: str
    outputs: tuple[str, ...]
    wide: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Bounds on `relative RMS error / the same of eager torch`; `floor` is an error always allowed.

    `peak` bounds the largest single error the same way: it finds one wrong row among millions.
    """

    factor: float = 2.0
    peak: float = 6.0
    floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The least an op must do: bytes moved, operations, and the unit that does them."""

    bytes: int
    flops: int
    unit: str = "fp32"


def load(path: str) -> Callable[..., Any]:
    """The function that "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def op_module(op: str, part: str = "cases") -> Any:
    """The module `part` of the folder `op`."""
    return importlib.import_module(f"day0_kernels.{op}.{part}")


def converted(arguments: Mapping[str, Any], dtype: torch.dtype | None = None) -> dict[str, Any]:
    """A deep copy of `arguments`, lists of tensors too; floating tensors become `dtype` where one
    is given."""

    def copy(value: Any) -> Any:
        if isinstance(value, list):
            return [copy(one) for one in value]
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(dtype if dtype and value.is_floating_point() else value.dtype, copy=True)

    return {name: copy(value) for name, value in arguments.items()}
