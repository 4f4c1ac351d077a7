"""Tiny checkpoints with an MTP layer, in the two forms of the hub: transformers writes none."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]
FILE = "model.safetensors"
# The trunk's full-attention layer whose tensors the draft's layer is made like.
LIKE = 3
# By model type: (names of join, norms of embedding, hidden and output, the draft's layer, count)
FORMS = {
    "qwen3_next": {
        "join": "mtp.fc.weight",
        "embedding": "mtp.pre_fc_norm_embedding.weight",
        "hidden": "mtp.pre_fc_norm_hidden.weight",
        "out": "mtp.norm.weight",
        "layer": "mtp.layers.0.",
        "count": "mtp_num_hidden_layers",
    },
    "glm5_next": {
        "join": "layers.8.eh_proj.weight",
        "embedding": "layers.8.enorm.weight",
        "hidden": "layers.8.hnorm.weight",
        "out": "layers.8.shared_head.norm.weight",
        "layer": "layers.8.",
        "count": "num_nextn_predict_layers",
    },
}  # fmt: skip


def change(folder: Path, work: Callable[[Tensors], None]) -> None:
    """Rewrite the file after `work` on its tensors."""
    found = load_file(folder / FILE)
    work(found)
    save_file(found, folder / FILE, metadata={"format": "pt"})


def add_mtp(folder: Path, kind: str, seed: int) -> Path:
    """An MTP layer with random join and norms and a layer like the trunk's."""
    form, draw = FORMS[kind], torch.Generator().manual_seed(seed)

    def work(found: Tensors) -> None:
        norm = next(value for name, value in found.items() if name.endswith("layernorm.weight"))
        width = norm.shape[0]
        found[form["join"]] = torch.randn(width, 2 * width, generator=draw) / width**0.5
        for name in ("embedding", "hidden", "out"):
            found[form[name]] = norm + 0.1 * torch.randn(width, generator=draw)
        like = f"layers.{LIKE}."
        for name, value in list(found.items()):
            if like in name and not name.startswith("mtp."):
                found[form["layer"] + name.partition(like)[2]] = value.clone()

    change(folder, work)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config[form["count"]] = 1
    path.write_text(json.dumps(config))
    return folder


def make_foreseeable(folder: Path, kind: str, *, embed_first: bool = True) -> Path:
    """Mixers and feed-forwards add nothing, so that a token follows from the one before it, and
    the draft takes the embedding alone: it is always right, unless its halves are exchanged."""
    form = FORMS[kind]

    def work(found: Tensors) -> None:
        for name, value in found.items():
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                value.zero_()
        width = found[form["join"]].shape[0]
        halves = [torch.eye(width), torch.zeros(width, width)]
        found[form["join"]] = torch.cat(halves if embed_first else halves[::-1], dim=1)
        unit = 0.0 if kind == "qwen3_next" else 1.0  # of a zero-centred norm
        found[form["embedding"]].fill_(unit)
        found[form["hidden"]].fill_(unit)
        trunk = next(name for name in ("model.norm.weight", "norm.weight") if name in found)
        found[form["out"]] = found[trunk].clone()

    change(folder, work)
    return folder
