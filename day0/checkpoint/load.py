"""MODEL to Checkpoint: a hub id, a folder, or the demo."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from day0.checkpoint.config import parse_config
from day0.checkpoint.folder import Folder
from day0.checkpoint.selection import pickled_weights, select
from day0.checkpoint.shards import Files, Progress, read_headers
from day0.checkpoint.source import Checkpoint
from day0.errors import Day0Error

DEMO = Path(__file__).resolve().parents[1] / "demo"
CONFIG = "config.json"
_COMPANIONS = ("generation_config.json", "tokenizer_config.json", "hf_quant_config.json")
_ALLOWED = "a hub id org/name[@revision], a folder, catalog:NAME or demo"
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[\w.+-]+(?:/[\w.+-]+)*))?")


def load(
    model: str,
    *,
    require_headers: bool = False,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> Checkpoint:
    """Read config.json, its companions and the tensor headers of `model`.

    `model` is a hub id `org/name[@revision]`, a folder, or "demo". A folder that exists wins over
    a hub id of the same spelling. `require_headers`: a checkpoint without safetensors is an
    error instead of `headers=None`. `cache_dir`: where a hub's files are kept (DAY0_CACHE, else
    ~/.cache/day0). `progress(done, total, shard)` is called after every shard.

    Weights are never read, pickle files never opened, remote code never executed.
    Raises Day0Error (exit 2) for everything that is wrong with the input.
    """
    if model == "demo":
        checkpoint = assemble(Folder(DEMO), progress)
        checkpoint = replace(checkpoint, id="demo", origin="demo")
    elif (folder := _existing_folder(model)) is not None:
        checkpoint = replace(assemble(Folder(folder), progress), id=model, origin="folder")
    else:
        repo, revision = split_hub_id(model)
        # Imported here: a folder must not pay for the hub client.
        from day0.checkpoint.hub import load_hub

        checkpoint = load_hub(
            repo, revision, cache_dir or default_cache(), lambda files: assemble(files, progress)
        )
        checkpoint = replace(checkpoint, id=model)
    if require_headers and checkpoint.headers is None:
        pickles = [finding for finding in checkpoint.findings if finding.code == "pickle-only"]
        instead = f" but pickle files ({', '.join(pickles[0].evidence)})" if pickles else ""
        raise Day0Error(
            f"{model} has no safetensors weights{instead}; --require-headers needs them",
            hint="convert the weights to safetensors, or leave --require-headers out",
        )
    return checkpoint


def default_cache() -> Path:
    """DAY0_CACHE, else ~/.cache/day0."""
    stated = os.environ.get("DAY0_CACHE")
    return Path(stated).expanduser() if stated else Path.home() / ".cache" / "day0"


def split_hub_id(model: str) -> tuple[str, str | None]:
    """Split `org/name[@revision]`; Day0Error saying what is allowed when it is no such id."""
    match = _HUB_ID.fullmatch(model)
    if match and ".." not in match["repo"] and "--" not in match["repo"]:
        return match["repo"], match["revision"]
    if "://" in model:
        raise Day0Error(
            f"MODEL {model!r} is an address; allowed is {_ALLOWED}",
            hint="write the id alone: day0 analyze org/name",
        )
    looks_like_folder = (
        model.startswith((".", "/", "~")) or "\\" in model or model.count("/") > 1
    ) and "@" not in model
    if looks_like_folder or model.endswith("/"):
        raise Day0Error(
            f"the folder {model!r} does not exist; allowed is {_ALLOWED}",
            hint="check the path with `ls`, or write org/name for a model of the hub",
        )
    raise Day0Error(
        f"MODEL {model!r} is neither a folder nor a hub id; allowed is {_ALLOWED}",
        hint="try `day0 analyze demo`",
    )


def assemble(files: Files, progress: Progress | None = None) -> Checkpoint:
    """Put a Checkpoint together from files; id, revision and origin are the caller's to fill in."""
    names = files.names()
    if CONFIG not in names:
        raise _no_config(files)
    config, findings = parse_config(files.small(CONFIG), files.where(CONFIG), CONFIG)
    read = [CONFIG]
    companions: dict[str, dict[str, Any]] = {}
    for name in _COMPANIONS:
        if name in names:
            companions[name], more = parse_config(files.small(name), files.where(name), name)
            findings += more
            read.append(name)
    selection = select(names)
    headers, more = read_headers(files, selection, progress)
    if headers is not None:
        read += [selection.index] if selection.index else []
        read += headers.shards
    return Checkpoint(
        id="",
        revision="",
        origin="",
        config=config,
        headers=headers,
        generation_config=companions.get("generation_config.json"),
        tokenizer_config=companions.get("tokenizer_config.json"),
        quant_sidecar=companions.get("hf_quant_config.json"),
        read=tuple(read),
        findings=findings + more,
    )


def _existing_folder(model: str) -> Path | None:
    if not model or "\0" in model:
        return None
    try:
        path = Path(model).expanduser()
    except RuntimeError:
        return None  # ~name of nobody
    try:
        if path.is_dir():
            return path
        is_file = path.is_file()
    except OSError:
        return None  # longer than a path can be
    if is_file:
        raise Day0Error(
            f"{model!r} is a file; allowed is {_ALLOWED}",
            hint=f"give its folder: day0 analyze {path.parent}",
        )
    return None


def _no_config(files: Files) -> Day0Error:
    names = files.names()
    missing = files.where(CONFIG)
    if "params.json" in names:
        return Day0Error(
            f"{missing} does not exist, only params.json (Mistral's own format); "
            "config.json is needed",
            hint="give the repository that holds the transformers format of the same model",
        )
    if any(name.endswith(".gguf") for name in names):
        return Day0Error(
            f"{missing} does not exist, only GGUF files; config.json is needed",
            hint="give the repository that the GGUF files were made from",
        )
    weights = pickled_weights(names) or sorted(n for n in names if n.endswith(".safetensors"))
    beside = f" beside {weights[0]}" if weights else ""
    return Day0Error(
        f"{missing} does not exist{beside}; a checkpoint has a config.json",
        hint="give the folder that config.json lies in, or try `day0 analyze demo`",
    )
