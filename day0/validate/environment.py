"""Where a report was made: versions, the device and its clocks."""

import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from day0 import __version__

_PACKAGES = ("torch", "triton", "transformers", "safetensors", "tokenizers")
_ASKED = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"


def environment(device: str) -> dict[str, Any]:
    """As JSON; `gpu` is what nvidia-smi says, {} without one."""
    found = {"day0": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": found,
        "cuda": torch.version.cuda,
        "device_name": device_name(device),
        "gpu": _gpu() if device != "cpu" else {},
        "threads": torch.get_num_threads(),
    }


def device_name(device: str) -> str:
    """What torch calls the device."""
    return "cpu" if device == "cpu" else torch.cuda.get_device_name(device)


def _gpu() -> dict[str, str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    asked = [program, f"--query-gpu={_ASKED}", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in said.splitlines()[0].split(",")] if said else []
    return dict(zip(_ASKED.split(","), values, strict=False))
