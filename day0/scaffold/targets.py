"""What `day0 scaffold` writes, by target."""

from pathlib import Path

from day0.analysis.analyze import Analysis
from day0.analysis.checklist import Checklist
from day0.analysis.worklist import worklist
from day0.errors import Day0Error, NotSupported
from day0.scaffold.engine import ENGINES, engine_files
from day0.scaffold.files import Written, write_files
from day0.scaffold.package import package_files

TARGETS = ("day0", *ENGINES)


def check_target(target: str) -> None:
    """Day0Error for a target that there is not."""
    if target not in TARGETS:
        raise Day0Error(
            f"--target is {target!r}; it must be one of {', '.join(TARGETS)}",
            hint="day0 scaffold MODEL --out DIR --target vllm",
        )


def scaffold(
    analysis: Analysis, checklist: Checklist, folder: Path, *, target: str, force: bool
) -> Written:
    """Write what `target` asks for into `folder`; see files.write_files.

    "day0": a package for what is new in the model; nothing is written where nothing is. An engine
    ("vllm", "sglang"): the skeleton of its plugin, for any model. Day0Error for another target,
    NotSupported where nothing but parts without tensors is unknown.
    """
    check_target(target)
    work = worklist(analysis)
    if target == "day0" and not work.operators and not work.left:
        return Written(folder=folder)
    if work.left and (target != "day0" or not work.operators):
        raise NotSupported(
            f"{len(work.left)} parts are unknown, with no tensors to begin with: {work.left[0]}",
            hint="name a hub id or a folder with safetensors files: their headers say more",
        )
    if target == "day0":
        files = package_files(analysis, work, checklist)
    else:
        files = engine_files(analysis, work, checklist, target)
    return write_files(folder, files, force=force)
