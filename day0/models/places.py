"""Where in the tree of tensor names the decoder stands."""

import re
from collections import Counter
from dataclasses import dataclass

from day0.checkpoint.headers import Headers

_LAYER = re.compile(r"((?:[^.]+\.)*?)(layers|h|blocks|block)\.(\d+)\.")
# First or later path components of towers and drafts: never the trunk.
ASIDE = frozenset(
    {
        "vision_tower", "vision_model", "vision_encoder", "visual", "vision", "vit",
        "audio_tower", "audio_model", "audio_encoder", "audio", "talker", "code2wav",
        "multi_modal_projector", "mm_projector", "patch_merger", "patch_merge_mlp", "aligner",
        "vision_language_adapter", "pre_mm_projector_norm", "mtp", "mtp_layers", "mtp_dspark",
        "embed_vision", "embed_audio", "connector", "embed_tokens_extend", "image_newline",
        "view_seperator",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """`prefix` of the decoder ("model."), `stem` of its layers ("layers"), `num_layers` found
    (highest number + 1, drafts included), `roots` where the head may stand, innermost first."""

    prefix: str
    stem: str
    num_layers: int
    roots: tuple[str, ...]


DEFAULT = Places(prefix="model.", stem="layers", num_layers=0, roots=("model.", ""))


def locate(headers: Headers | None) -> Places:
    """The layer stack that holds most bytes, towers and drafts aside."""
    if headers is None:
        return DEFAULT
    weight: Counter[tuple[str, str]] = Counter()
    highest: dict[tuple[str, str], int] = {}
    for name, header in headers.tensors.items():
        match = _LAYER.match(name)
        if match is None:
            continue
        prefix, stem, number = match.groups()
        if not ASIDE.isdisjoint(prefix.split(".")):
            continue
        place = prefix, stem
        weight[place] += header.bytes
        if (index := int(number)) > highest.get(place, -1):
            highest[place] = index
    if not weight:
        return DEFAULT
    prefix, stem = max(weight, key=lambda place: (weight[place], place))
    return Places(
        prefix=prefix, stem=stem, num_layers=highest[prefix, stem] + 1, roots=_roots(prefix)
    )


def _roots(prefix: str) -> tuple[str, ...]:
    parts = prefix.split(".")[:-1]
    return tuple(
        ".".join(parts[:depth]) + ("." if depth else "") for depth in range(len(parts), -1, -1)
    )
