"""What a layer is in a word or two: the view that reports and tests read."""

from typing import Any

from day0.models import LayerSpec


def layer_view(index: int, layer: LayerSpec, residual: str) -> dict[str, Any]:
    """{"index", "mixer", "ffn", "residual"}: mechanism stems, lists joined with "+"."""
    names: dict[str, list[str]] = {"mixer": [], "ffn": []}
    for sublayer in layer.sublayers:
        for branch in sublayer.branches:
            slot = "ffn" if "ffn" in (sublayer.name, branch.slot) else "mixer"
            if sublayer.name != "per_layer":
                names[slot].append(kind_of(branch.stem, branch.spec))
    return {
        "index": index,
        "mixer": "+".join(names["mixer"]),
        "ffn": "+".join(names["ffn"]),
        "residual": residual,
    }


def kind_of(stem: str, spec: Any) -> str:
    """The mechanism's stem with what its spec adds: "sparse_mla", "sliding_gqa", "hash_moe"."""
    if stem == "shared_kv":
        if not spec.ratio:
            return "sliding_shared_kv"
        return "compressed" if spec.indexer is not None else "heavily_compressed"
    if getattr(spec, "window", 0) and stem in ("gqa", "mla"):
        return f"sliding_{stem}"
    if stem == "mla" and spec.indexer is not None:
        return "sparse_mla"
    if stem == "mla" and spec.topk_of >= 0:
        return "sparse_mla_shared"
    if stem == "moe" and spec.hashed:
        return "hash_moe"
    return stem
