"""What each layer of an instantiated transformers model really is, read from its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MIXERS = (
    "kda",
    "gdn",
    "lightning",
    "gqa",
    "sliding_gqa",
    "sparse_gqa",
    "mla",
    "sliding_mla",
    "sparse_mla",
    "sparse_mla_shared",
    "sliding_shared_kv",
    "compressed",
    "heavily_compressed",
)
FEED_FORWARDS = ("glu", "moe", "hash_moe")
MIXER_ATTRIBUTES = ("linear_attn", "self_attn")


def layer_kinds(decoder: torch.nn.Module) -> tuple[tuple[str, str], ...]:
    """(mixer, feed-forward) per layer of a text decoder (the module that has `layers`).

    Mixers and feed-forwards are words of MIXERS and FEED_FORWARDS. A `sparse_mla_shared` layer
    has no indexer of its own and takes the tokens another layer chose.
    """
    return tuple((mixer_kind(layer), feed_forward_kind(layer)) for layer in decoder.layers)


def mixer_kind(layer: torch.nn.Module) -> str:
    """The mixer word of one decoder layer; LookupError for a module nobody described."""
    mixer = next(
        (
            getattr(layer, name)
            for name in MIXER_ATTRIBUTES
            if getattr(layer, name, None) is not None
        ),
        None,
    )
    if mixer is None:
        raise LookupError(f"{type(layer).__name__} has none of {', '.join(MIXER_ATTRIBUTES)}")
    children = dict(mixer.named_children())
    if "forget_gate" in children:
        return "kda"
    if "conv1d" in children or hasattr(mixer, "A_log"):
        return "gdn"
    if hasattr(mixer, "slope_rate"):
        return "lightning"
    if "o_a_proj" in children:
        return compressed_kind(children.get("compressor"))
    if "kv_b_proj" in children:
        return latent_kind(mixer, children)
    if "indexer" in children:
        return "sparse_gqa"
    # Gemma's last layers have queries alone and read earlier keys.
    if "q_proj" in children and ("k_proj" in children or hasattr(mixer, "is_kv_shared_layer")):
        return "sliding_gqa" if window_of(mixer) is not None else "gqa"
    raise LookupError(f"no mixer word for {type(mixer).__name__} with {', '.join(children)}")


def compressed_kind(compressor: torch.nn.Module | None) -> str:
    """Deepseek-V4 attention by its compressor: overlapping windows with an indexer, or not."""
    if compressor is None:
        return "sliding_shared_kv"
    return "compressed" if hasattr(compressor, "indexer") else "heavily_compressed"


def latent_kind(mixer: torch.nn.Module, children: dict[str, torch.nn.Module]) -> str:
    """Multi-head latent attention by what restricts it."""
    if "indexer" in children:
        return "sparse_mla"
    if window_of(mixer) is not None:
        return "sliding_mla"
    return "sparse_mla_shared" if hasattr(mixer, "indexer") else "mla"


def window_of(mixer: torch.nn.Module) -> int | None:
    """The window the module attends through; classes without one per layer ask their config."""
    if hasattr(mixer, "sliding_window"):
        return mixer.sliding_window
    layer_types = getattr(mixer.config, "layer_types", None)
    if layer_types is not None and layer_types[mixer.layer_idx] != "sliding_attention":
        return None
    return getattr(mixer.config, "sliding_window", None)


def feed_forward_kind(layer: torch.nn.Module) -> str:
    """The feed-forward word of one decoder layer; LookupError for a module nobody described."""
    block = getattr(layer, "mlp", None)
    if block is None:
        block = getattr(layer, "block_sparse_moe", None)
    if block is None:
        raise LookupError(f"{type(layer).__name__} has no feed-forward")
    if hasattr(block, "experts"):
        router = getattr(block, "gate", None)
        return "hash_moe" if hasattr(router, "tid2eid") else "moe"
    if hasattr(block, "down_proj"):
        return "glu"
    raise LookupError(f"no feed-forward word for {type(block).__name__}")
