"""`day0 run --mesh` as users start it: torchrun from a bare tree, on this machine's loopback."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from day0.cli.run import DEFAULT_PROMPT  # noqa: E402
from day0.errors import Day0Error  # noqa: E402
from day0.parallel.collectives import Ranks  # noqa: E402
from day0.parallel.mesh import parse  # noqa: E402
from day0.runtime.opening import open_model  # noqa: E402
from day0.runtime.sampling import Sampling  # noqa: E402
from tests.parallel.models import own_bytes, session_of  # noqa: E402
from tests.parallel.ranks import free_port  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RUN = ("run", "demo", "--quant", "fp32", "--max-new-tokens", "6", "--format", "json")
SECONDS = 120
KERNELS = {"PYTHONPATH": str(ROOT / "kernels")}  # `python -m day0` finds them by itself
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    code: int
    out: str
    err: str
    seconds: float


def started(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A process in the bare tree: nothing of day0 is on its path but the folder it stands in."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={
            **inherited,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str], since: float) -> Done:
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    return Done(code=process.returncode, out=out, err=err, seconds=time.monotonic() - since)


def torchrun(*arguments: str, environment: dict[str, str] | None = None) -> Done:
    since = time.monotonic()
    options = ("--standalone", "--nproc-per-node", "2", "-m")
    return done(
        started("torch.distributed.run", *options, *arguments, environment=environment), since
    )


@pytest.fixture(scope="module")
def alone() -> list[int]:
    """The ids that one process goes on with."""
    session = session_of("demo", None)
    text = open_model("demo", quant="fp32").text
    assert text is not None
    (end,) = session.generate([text.encode(DEFAULT_PROMPT)], Sampling(max_new_tokens=6))
    return end.tokens[-6:]


def test_two_ranks_print_once_what_one_does(alone: list[int]) -> None:
    two = torchrun("day0", *RUN, "--mesh", "tp2ep2", "--expert-load")
    assert two.code == 0, two.err
    said = json.loads(two.out)  # of one rank: two would be no JSON
    assert said["outputs"][0]["ids"] == alone
    assert said["mesh"]["name"] == "tp2ep2"
    assert said["mesh"]["rank"] == 0
    load = said["expert_load"]
    assert [row["layer"] for row in load] == [1, 2, 3, 4, 5, 6, 7]
    tokens = len(said["outputs"][0]["prompt_ids"]) + len(alone) - 1
    for row in load:
        # a prompt's last layer works for its last row alone
        rows = len(alone) if row["layer"] == 7 else tokens
        assert sum(row["chosen"]) == rows * 2
        assert row["by_rank"] == [sum(row["chosen"][:4]), sum(row["chosen"][4:])]


def test_two_machines_over_one_rendezvous(alone: list[int]) -> None:
    """Two torchrun agents, one process each, that meet at a port."""
    port = free_port()
    where = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d",
             "--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1")  # fmt: skip
    since = time.monotonic()
    agents = [
        started("torch.distributed.run", *where, "-m", "day0", *RUN, "--mesh", "tp2")
        for _ in range(2)
    ]
    ends = [done(agent, since) for agent in agents]
    assert [end.code for end in ends] == [0, 0], ends[0].err + ends[1].err
    (said,) = [json.loads(end.out) for end in ends if end.out]
    assert said["outputs"][0]["ids"] == alone


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("error", "error: rank 1: the disk is full"),
        pytest.param(
            "stuck", "did not answer a collective within --dist-timeout", marks=pytest.mark.slow
        ),
    ],
)
def test_a_rank_that_ends_ends_all_and_says_why(how: str, told: str) -> None:
    end = torchrun(
        "tests.parallel.ends", *RUN, "--mesh", "tp2", "--dist-timeout", "4",
        environment={"ENDS_RANK": "1", "ENDS_HOW": how, **KERNELS},
    )  # fmt: skip
    assert end.code != 0
    assert told in end.err
    assert end.err.count("error: rank") == 1
    assert not end.out
    assert end.seconds < 60


@pytest.mark.slow
def test_a_killed_rank_on_another_machine_ends_this_one() -> None:
    """The agent of the killed rank ends; the other one learns it from the rank's silence."""
    where = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "static",
             "--master-addr", "127.0.0.1", "--master-port", str(free_port()))  # fmt: skip
    since = time.monotonic()
    agents = [
        started(
            "torch.distributed.run", *where, "--node-rank", str(rank), "-m", "tests.parallel.ends",
            *RUN, "--mesh", "tp2", environment={"ENDS_RANK": "1", "ENDS_HOW": "kill", **KERNELS},
        )
        for rank in range(2)
    ]  # fmt: skip
    ends = [done(agent, since) for agent in agents]
    assert all(end.code for end in ends)
    assert "error: rank 1: not heard of" in ends[0].err
    assert ends[0].seconds < 60


@pytest.mark.parametrize(
    ("mesh", "code", "told", "hint"),
    [
        ("tp2", 2, "has 2 ranks; this process was started without torchrun",
         "torchrun --nproc-per-node 2 -m day0 run MODEL --mesh tp2"),
        ("tp3", 3, "--mesh tp3 is an illegal split: TP 3: 4 heads / 3", "--plan parallel"),
    ],
)  # fmt: skip
def test_what_cannot_start_is_told(mesh: str, code: int, told: str, hint: str) -> None:
    with pytest.raises(Day0Error) as caught:
        open_model("demo", mesh=mesh)
    assert caught.value.exit_code == code
    assert told in caught.value.message
    assert hint in caught.value.hint


def test_a_rank_reads_its_own_part_of_the_files() -> None:
    """Not much more than its weights have elements: heads that lie between each other's rows in one
    tensor are read with what is between them."""
    read = []
    for rank in range(2):
        ranks = Ranks(mesh=parse("tp2ep2"), rank=rank, device=torch.device("cpu"))
        session = session_of("demo", ranks)
        assert 1 <= session.read_bytes / own_bytes(session) < 1.02
        read.append(session.read_bytes)
    whole = session_of("demo", None)
    # a little more than half: routers, norms and the index are on both
    assert all(0.5 < count / whole.read_bytes < 0.6 for count in read)
