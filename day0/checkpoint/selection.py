"""Which files hold the weights: one copy, even where a checkpoint ships several."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from day0.ir.fact import Finding

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
CONSOLIDATED_INDEX = "consolidated.safetensors.index.json"

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
WEIGHTS = (*PICKLES, ".safetensors", ".gguf", ".h5", ".msgpack", ".onnx", ".npz")
# Pickles of a training run that were never the model's weights.
_TRAINING = ("training_args", "optimizer", "scheduler", "rng_state", "scaler")
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<total>\d+)\.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The chosen copy.

    `index` is the index file to read or "". `shards` are the files to read where no index says
    it; `expected` how many of them their names promise (0: they promise nothing).
    """

    index: str = ""
    shards: tuple[str, ...] = ()
    expected: int = 0
    findings: tuple[Finding, ...] = ()


def select(names: Collection[str]) -> Selection:
    """Choose among the files of a checkpoint (paths relative to it, "/" between folders).

    In this order: the index, model.safetensors, a numbered set without an index,
    consolidated*.safetensors (with its own index where there is one), the only safetensors file
    there is. Adapters and files in folders below are never chosen.
    """
    top = sorted(name for name in names if "/" not in name and name.endswith(".safetensors"))
    if INDEX in names:
        return Selection(index=INDEX)
    if SINGLE in top:
        return Selection(shards=(SINGLE,))
    consolidated = tuple(name for name in top if name.startswith("consolidated"))
    others = [name for name in top if name not in consolidated and not _is_adapter(name)]
    sets: dict[tuple[str, int], list[str]] = {}
    for name in others:
        match = _NUMBERED.fullmatch(name)
        if match:
            sets.setdefault((match["stem"], int(match["total"])), []).append(name)
    if len(sets) == 1:
        # Some sets count from zero (model-00000-of-00002), so only the number of files tells.
        [((_, total), shards)] = sets.items()
        finding = Finding(
            code="index-absent",
            severity="warning",
            message=f"{len(shards)} shards and no {INDEX}: nothing says whether all are there",
            evidence=tuple(shards[:8]),
        )
        return Selection(shards=tuple(shards), expected=total, findings=(finding,))
    if consolidated:
        if CONSOLIDATED_INDEX in names:
            return Selection(index=CONSOLIDATED_INDEX)
        return Selection(shards=consolidated)
    if len(others) == 1:
        return Selection(shards=(others[0],))
    if others:
        finding = Finding(
            code="weights-unclear",
            severity="warning",
            message=f"{len(others)} safetensors files and nothing that says which are the model's; "
            f"{INDEX} or {SINGLE} is needed",
            evidence=tuple(others[:8]),
        )
        return Selection(findings=(finding,))
    pickles = pickled_weights(names)
    if pickles:
        finding = Finding(
            code="pickle-only",
            severity="warning",
            message=f"weights are pickle files only ({len(pickles)}), which are never opened: "
            "nothing can be proved",
            evidence=pickles[:8],
        )
        return Selection(findings=(finding,))
    return Selection()


def pickled_weights(names: Iterable[str]) -> tuple[str, ...]:
    """The pickle files beside config.json that hold weights."""
    return tuple(
        sorted(
            name
            for name in names
            if "/" not in name and name.endswith(PICKLES) and not name.startswith(_TRAINING)
        )
    )


def left_out(names: Collection[str], read: Collection[str]) -> tuple[Finding, ...]:
    """Findings about weight files beside the chosen copy (`read`), which is not empty.

    Copies and training leftovers are "left-out" (info). A safetensors file that is neither, and
    that the index does not name, may hold weights of the model: "unindexed-shard" (warning).
    """
    groups: dict[str, int] = {}
    unindexed: list[str] = []
    for name in sorted(names):
        if name in read or not name.endswith(WEIGHTS):
            continue
        folder, slash, _ = name.partition("/")
        if slash:
            groups[f"{folder}/"] = groups.get(f"{folder}/", 0) + 1
        elif name.endswith(".safetensors") and not _is_copy(name):
            unindexed.append(name)
        else:
            groups[name] = 1
    findings: list[Finding] = []
    if groups:
        findings.append(
            Finding(
                code="left-out",
                severity="info",
                message=f"{sum(groups.values())} other weight files were left out: "
                f"one copy is read, {_count(read)}",
                evidence=tuple(
                    f"{name} ({count} files)" if count > 1 else name
                    for name, count in groups.items()
                ),
            )
        )
    if unindexed:
        findings.append(
            Finding(
                code="unindexed-shard",
                severity="warning",
                message=f"{len(unindexed)} safetensors files are named by no index and not read",
                evidence=tuple(unindexed),
            )
        )
    return tuple(findings)


def _count(read: Collection[str]) -> str:
    return next(iter(read)) if len(read) == 1 else f"{len(read)} shards"


def _is_adapter(name: str) -> bool:
    return name.startswith("adapter")


def _is_copy(name: str) -> bool:
    return name == SINGLE or name.startswith("consolidated") or _is_adapter(name)
