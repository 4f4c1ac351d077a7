"""The scales of a quantised KV cache that a checkpoint ships: no weight's companions."""

from collections.abc import Iterable
from dataclasses import dataclass

# Part of a layer's cache scales by the end of the name: compressed-tensors puts them on the
# attention module, ModelOpt on the projections; "output_scale" is the older spelling of the latter.
SUFFIXES = (
    (".k_proj.k_scale", "k"), (".v_proj.v_scale", "v"),
    (".k_proj.output_scale", "k"), (".v_proj.output_scale", "v"),
    (".attn.k_scale", "k"), (".attn.v_scale", "v"),
    (".k_scale", "k"), (".v_scale", "v"), (".kv_scale", "kv"),
    (".q_scale", "q"), (".k_zero_point", "k_zeros"), (".v_zero_point", "v_zeros"),
    (".prob_output_scale", "prob"),
)  # fmt: skip
_ENDS = tuple(suffix for suffix, _ in SUFFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvScales:
    """The cache scales of one attention module: (part, tensor name), parts "k", "v", "kv" (one for
    both), "q", "prob", "k_zeros", "v_zeros"."""

    module: str
    parts: tuple[tuple[str, str], ...]

    @property
    def lone(self) -> str:
        """The tensor of a k or v scale whose twin is missing; "" when the pair is whole."""
        found = dict(self.parts)
        if "kv" in found or ("k" in found) == ("v" in found):
            return ""
        return found["k"] if "k" in found else found["v"]


def kv_scales(tensors: Iterable[str]) -> tuple[KvScales, ...]:
    """All cache scales by attention module, in the order of the headers."""
    modules: dict[str, list[tuple[str, str]]] = {}
    for name in tensors:
        if name.endswith(_ENDS):
            suffix, part = next(pair for pair in SUFFIXES if name.endswith(pair[0]))
            modules.setdefault(name.removesuffix(suffix), []).append((part, name))
    return tuple(KvScales(module=module, parts=tuple(parts)) for module, parts in modules.items())
