"""Stand-ins for what a plugin imports of vLLM and SGLang: names, signatures, and what was said.

Written from shared/reference/formats-and-parallelism.md, section 3.3; nothing of the engines runs.
"""

import sys
from dataclasses import dataclass, field
from math import prod
from types import ModuleType
from typing import Any

import torch


@dataclass
class Registered:
    """What a plugin told the engine."""

    models: dict[str, Any] = field(default_factory=dict)
    linear: list[Any] = field(default_factory=list)

    def register_model(self, architecture: str, target: str) -> None:
        self.models[architecture] = target


@dataclass(frozen=True, kw_only=True)
class _Attention:
    block_size: int
    num_kv_heads: int
    head_size: int
    dtype: torch.dtype

    @property
    def page_size_bytes(self) -> int:
        return self.block_size * self.num_kv_heads * self.width * self.dtype.itemsize

    @property
    def width(self) -> int:
        return 2 * self.head_size


@dataclass(frozen=True, kw_only=True)
class FullAttentionSpec(_Attention):
    head_size_v: int

    @property
    def width(self) -> int:
        return self.head_size + self.head_size_v


@dataclass(frozen=True, kw_only=True)
class SlidingWindowSpec(_Attention):
    sliding_window: int


@dataclass(frozen=True, kw_only=True)
class MLAAttentionSpec(_Attention):
    @property
    def width(self) -> int:
        return self.head_size


@dataclass(frozen=True, kw_only=True)
class MambaSpec:
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    block_size: int

    @property
    def page_size_bytes(self) -> int:
        pairs = zip(self.shapes, self.dtypes, strict=True)
        return sum(prod(shape) * dtype.itemsize for shape, dtype in pairs)


@dataclass(frozen=True, kw_only=True)
class LinearAttnModelSpec:
    config_class: type
    backend_class_name: str
    arch_names: list[str]
    uses_mamba_radix_cache: bool
    support_mamba_cache: bool


class IntermediateTensors(dict[str, torch.Tensor]):
    pass


def _named(*names: str) -> dict[str, type]:
    return {name: type(name, (), {}) for name in names}


def engines(said: Registered) -> dict[str, ModuleType]:
    """The modules by name, to stand in sys.modules."""
    specs = (FullAttentionSpec, SlidingWindowSpec, MLAAttentionSpec, MambaSpec)
    contents: dict[str, dict[str, Any]] = {
        "vllm": {"ModelRegistry": said},
        "vllm.config": _named("VllmConfig"),
        "vllm.sequence": {"IntermediateTensors": IntermediateTensors},
        "vllm.model_executor.models.interfaces": _named("HasInnerState", "IsHybrid", "SupportsPP"),
        "vllm.v1.kv_cache_interface": {spec.__name__: spec for spec in specs},
        "sglang.srt.models.registry": {"ModelRegistry": said},
        "sglang.srt.layers.logits_processor": _named("LogitsProcessorOutput"),
        "sglang.srt.layers.quantization.base_config": _named("QuantizationConfig"),
        "sglang.srt.model_executor.forward_batch_info": _named("ForwardBatch", "PPProxyTensors"),
        "sglang.srt.configs.linear_attn_model_registry": {
            "LinearAttnModelSpec": LinearAttnModelSpec,
            "register_linear_attn_model": said.linear.append,
        },
    }
    made = {}
    for name, content in contents.items():
        for parent in (name.rsplit(".", n)[0] for n in range(name.count(".") + 1)):
            made.setdefault(parent, ModuleType(parent)).__path__ = []
        made[name].__dict__.update(content)
    assert not set(made) & set(sys.modules), "an engine is installed: it would be hidden"
    return made
