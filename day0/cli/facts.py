"""--facts FILE: facts that the user states."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from day0.errors import Day0Error


def load_facts(path: Path | None) -> Mapping[str, Any]:
    """The mapping in a YAML file; Day0Error when it is no mapping of paths to plain values."""
    if path is None:
        return {}
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Day0Error(
            f"--facts {path} cannot be read: {error.strerror or error}",
            hint="name a YAML file with lines such as 'mla.rope_pairing: interleaved'",
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Day0Error(
            f"--facts {path} is not YAML: {' '.join(str(error).split())}",
            hint="write lines such as 'mla.rope_pairing: interleaved'",
        ) from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise Day0Error(
            f"--facts {path} holds {type(data).__name__}; it must map fact paths to values",
            hint="write lines such as 'mla.rope_pairing: interleaved'",
        )
    return data
