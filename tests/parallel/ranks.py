"""Ranks as processes of this machine: one gloo process group runs all cases of a mesh."""

import os
import pickle
import queue
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from day0.parallel.collectives import Ranks, ranks_of
from day0.parallel.mesh import parse

PATIENCE = 240.0  # seconds for all cases of a mesh

# (ranks, arguments) -> what this rank found
Case = Callable[..., Any]


def run_ranks(mesh: str, case: Case, *arguments: Any) -> list[Any]:
    """What `case(ranks, *arguments)` gave on every rank of `mesh`, in their order. The case is a
    function at the top of a module. AssertionError with a rank's traceback where one failed."""
    context = processes.get_context("spawn")
    answers = context.Queue()
    count = parse(mesh).size
    port = free_port()
    started = [
        context.Process(
            target=_rank, args=(mesh, rank, port, case, arguments, answers), daemon=True
        )
        for rank in range(count)
    ]
    for process in started:
        process.start()
    found: dict[int, Any] = {}
    end = time.monotonic() + PATIENCE
    try:
        while len(found) < count:
            try:
                rank, answer, failure = answers.get(timeout=1)
            except queue.Empty:
                dead = [
                    n for n, process in enumerate(started) if process.exitcode and n not in found
                ]
                assert not dead, f"ranks {dead} of {mesh} died"
                assert time.monotonic() < end, f"{mesh}: nothing within {PATIENCE:g} s"
                continue
            assert not failure, f"rank {rank} of {mesh}:\n{failure}"
            found[rank] = pickle.loads(answer)
    finally:
        for process in started:
            process.join(timeout=5 if len(found) == count else 0)
            if process.is_alive():
                process.kill()
    return [found[rank] for rank in range(count)]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def _rank(
    mesh: str, rank: int, port: int, case: Case, arguments: tuple[Any, ...], answers: Any
) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    try:
        shape = parse(mesh)
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=shape.size
        )
        ranks: Ranks = ranks_of(shape, rank, torch.device("cpu"), timeout=60)
        # as bytes: tensors in a queue belong to the process that sent them
        answers.put((rank, pickle.dumps(case(ranks, *arguments)), ""))
        dist.barrier()
    except BaseException:
        answers.put((rank, None, traceback.format_exc()))
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
