"""One build per type and run, shared by all test processes of the run."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .checkpoint import TinyCheckpoint, build, classes_of
from .table import ALL_TYPES

PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 0.02


def build_once(folder: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run `make`, which fills `folder`, in exactly one process, and give all of them its result.

    The result is kept as JSON beside the folder and appears when the folder is complete. A maker
    that fails lets the next process try; TimeoutError if another one holds the lock for too long.
    """
    record, lock = folder.with_suffix(".json"), folder.with_suffix(".lock")
    folder.parent.mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not record.exists():
        try:
            handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if time.monotonic() > give_up:
                raise TimeoutError(f"{lock} is held by a process that does not finish") from None
            time.sleep(PAUSE_SECONDS)
            continue
        os.close(handle)
        try:
            # Another process may have finished between the look at the record and the lock.
            if not record.exists():
                draft = record.with_suffix(".draft")
                draft.write_text(json.dumps(make()))
                draft.replace(record)
        finally:
            lock.unlink()
    return json.loads(record.read_text())


def shared(type_name: str, base: Path, *, seed: int, **overrides: Any) -> TinyCheckpoint:
    """The checkpoint of a type below `base`, built by whichever process asks first.

    The folder is everybody's: read it, and copy it before changing anything. `overrides` are
    those of `build`.
    """
    words = repr(sorted(overrides.items()))
    suffix = f"-{zlib.crc32(words.encode()):08x}" if overrides else ""
    folder = base / f"{type_name}-{seed}{suffix}"

    def make() -> dict[str, Any]:
        made = build(type_name, folder, seed=seed, **overrides)
        return {
            "num_params": made.num_params,
            "num_tower_params": made.num_tower_params,
            "buffers": made.buffers,
            "layer_kinds": made.layer_kinds,
        }

    facts = build_once(folder, make)
    config_class, _ = classes_of(ALL_TYPES[type_name])
    return TinyCheckpoint(
        type_name=type_name,
        folder=folder,
        seed=seed,
        config=config_class.from_pretrained(folder),
        num_params=facts["num_params"],
        num_tower_params=facts["num_tower_params"],
        buffers=tuple((name, elements) for name, elements in facts["buffers"]),
        layer_kinds=tuple((mixer, block) for mixer, block in facts["layer_kinds"]),
    )
