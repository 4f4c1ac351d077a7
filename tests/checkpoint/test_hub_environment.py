"""The environment variables of the hub client, in a fresh interpreter."""

import os
import subprocess
import sys
from pathlib import Path

from tests.checkpoint.build import sharded_files
from tests.checkpoint.hub_server import Hub


def run(hub: Hub, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter with the client's own environment variables."""
    code = (
        "import sys; from day0.checkpoint.load import load; from day0.errors import Day0Error\n"
        "try:\n    found = load(sys.argv[1])\n"
        "except Day0Error as error:\n    print(error.message); sys.exit(error.exit_code)\n"
        "print(len(found.headers.tensors), [f.code for f in found.findings])"
    )
    variables = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "home"),
        "DAY0_CACHE": str(tmp_path / "cache"),
        **environment,
    }
    command = [sys.executable, "-c", code, Hub.repo]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_the_environment_variables_of_the_client(tmp_path: Path):
    with Hub(sharded_files()) as hub:
        hub.gated, hub.token = True, "hf_granted"
        result = run(hub, tmp_path, HF_HUB_OFFLINE="1")
        assert (result.returncode, hub.log) == (2, [])
        assert "offline and not cached" in result.stdout
        result = run(hub, tmp_path, HF_TOKEN="hf_granted")
        assert (result.stdout, result.stderr) == ("4 []\n", "")
        hub.log.clear()
        result = run(hub, tmp_path, HF_HUB_OFFLINE="1")
        assert (result.stdout, result.stderr) == ("4 ['cache-used']\n", "")
        assert hub.log == []


def test_a_proxy_is_used(tmp_path: Path):
    with Hub(sharded_files()) as hub:
        # The hub doubles as a proxy: it looks at the path of the absolute address only.
        result = run(hub, tmp_path, HF_ENDPOINT="http://hub.invalid", HTTP_PROXY=hub.url)
        assert (result.returncode, result.stdout) == (0, "4 []\n"), result.stderr
        assert hub.requests("/api/models/org/name")
