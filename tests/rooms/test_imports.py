"""Sources against the table of who may import whom."""

from pathlib import PurePosixPath

import pytest

from tests.rooms import imports, tree

SOURCES = tuple(
    path for path in tree.files() if path.suffix == ".py" and path.parts[0] in {"day0", "kernels"}
)


@pytest.mark.parametrize("top", ["day0", "kernels"])
def test_imports_follow_the_table(top: str) -> None:
    found: list[str] = []
    for path in SOURCES:
        if path.parts[0] == top:
            found += imports.complaints(PurePosixPath(path), (tree.ROOT / path).read_text())
    assert found == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("day0/ir/op.py", "import torch", "ir imports torch"),
        ("day0/ir/op.py", "from day0.registry import judge", "ir imports registry.judge"),
        ("day0/passes/fuse.py", "from ..models import kimi", "passes imports models.kimi"),
        ("day0/passes/fuse.py", "from day0 import models", "passes imports models"),
        ("day0/models/x.py", "def f():\n    import transformers", "models imports transformers"),
        ("day0/analysis/x.py", "from day0.runtime.engine import E", "analysis imports runtime"),
        ("day0/runtime/x.py", "from day0.analysis import proof", "runtime imports analysis.proof"),
        ("day0/cli/run.py", "from day0 import runtime", "inside a function"),
        ("day0/cli/run.py", "import day0.validate.checks", "inside a function"),
        ("day0/registry/x.py", "import importlib\nimportlib.import_module('torch')", "torch"),
        ("day0/kitchen/x.py", "import day0.ir", "no room of the table"),
        ("day0/resources.py", "from day0.ir import Op", "resources imports ir.Op"),
        ("kernels/day0_kernels/kda/x.py", "from day0.ir import Op", "day0_kernels imports day0"),
        ("kernels/day0_kernels/kda/x.py", "import numpy", "day0_kernels imports numpy"),
        ("kernels/day0_kernels/kda/x.py", "def f():\n    import fla", "day0_kernels imports fla"),
        ("kernels/day0_kernels/kda/peers.py", "import fla", "day0_kernels imports fla"),
    ],
)
def test_a_planted_import_is_reported(path: str, source: str, complaint: str) -> None:
    found = imports.complaints(PurePosixPath(path), source)
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("day0/ir/op.py", "import json\nfrom .tensor import TensorSpec\nfrom . import rows"),
        ("day0/cli/run.py", "def run():\n    from day0.runtime import engine"),
        ("day0/runtime/x.py", "from day0.analysis.memory import plan\nimport torch"),
        ("day0/runtime/x.py", "from day0.analysis import memory"),
        ("day0/checkpoint/x.py", "from day0.errors import Day0Error\nimport huggingface_hub"),
        ("day0/cli/x.py", "from day0 import __version__\nimport typer"),
        ("kernels/day0_kernels/kda/peers.py", "def f():\n    import fla"),
        ("kernels/day0_kernels/kda/x.py", "from ..common import tiles\nimport triton.language"),
    ],
)
def test_allowed_imports_pass(path: str, source: str) -> None:
    assert imports.complaints(PurePosixPath(path), source) == []
