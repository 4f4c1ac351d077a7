"""What ranks send one another, by torch.distributed: NCCL between GPUs, gloo between CPUs.

Every collective names an axis of the mesh. On an axis of one rank it gives back what it got.
Uneven shares are padded for the wire where the backend wants equal ones, and trimmed again.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from day0.errors import Day0Error
from day0.parallel.mesh import GROUPS, Axis, Mesh

TIMEOUT = 600.0
# What torchrun says of the process it starts.
RANK, WORLD, LOCAL = "RANK", "WORLD_SIZE", "LOCAL_RANK"


# Newer releases of torch call the same functions otherwise.
_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(slots=True, kw_only=True)
class Ranks:
    """This process among the ranks of a mesh, with a process group for every axis."""

    mesh: Mesh
    rank: int
    device: torch.device
    groups: dict[str, dist.ProcessGroup | None] = field(default_factory=dict)

    @property
    def everyone(self) -> range:
        """All ranks of the mesh."""
        return range(self.mesh.size)

    def axis(self, name: str) -> Axis:
        """The ranks that share the axis with this one, and its own place among them."""
        return self.mesh.axis(name, self.rank)

    def all_reduce(self, value: torch.Tensor, axis: str) -> torch.Tensor:
        """The sum over the axis, in every rank the same bits; `value` itself is left alone."""
        if self.axis(axis).size == 1:
            return value
        total = value.contiguous().clone()
        dist.all_reduce(total, group=self.groups[axis])
        return total

    def all_gather(
        self, value: torch.Tensor, axis: str, *, dim: int = 0, sizes: Sequence[int] | None = None
    ) -> torch.Tensor:
        """All ranks' values side by side along `dim`, in the axis' order. `sizes`: what each rank
        brings along `dim`, where they differ. Any dtype: codes travel as bytes."""
        here = self.axis(axis)
        if here.size == 1:
            return value
        front = value.movedim(dim, 0)
        counts = list(sizes) if sizes is not None else [front.shape[0]] * here.size
        most = max(counts)
        sent = _bytes(_padded(front, most))
        gathered = sent.new_empty((here.size * most, *sent.shape[1:]))
        _GATHER(gathered, sent, group=self.groups[axis])
        parts = gathered.view(here.size, most, *sent.shape[1:])
        if all(count == most for count in counts):
            whole = gathered
        else:
            whole = torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
        return _typed(whole, value.dtype).movedim(0, dim)

    def reduce_scatter(
        self, value: torch.Tensor, axis: str, *, sizes: Sequence[int] | None = None
    ) -> torch.Tensor:
        """This rank's rows of the sum over the axis; `sizes`: how many rows each rank gets (equal
        shares unless given)."""
        here = self.axis(axis)
        if here.size == 1:
            return value
        counts = list(sizes) if sizes is not None else [value.shape[0] // here.size] * here.size
        most = max(counts)
        padded = [_padded(part, most) for part in value.split(counts)]
        mine = torch.empty_like(padded[0])
        _SCATTER(mine, torch.cat(padded), group=self.groups[axis])
        return mine[: counts[here.place]]

    def all_to_all(
        self,
        value: torch.Tensor,
        axis: str,
        send: Sequence[int],
        receive: Sequence[int] | None = None,
    ) -> tuple[torch.Tensor, list[int]]:
        """Rows for every rank, one rank's after another's, `send` of them each; what the others
        sent here, in their order, and how many each sent (`receive` where that is known)."""
        here = self.axis(axis)
        if here.size == 1:
            return value, list(send)
        counts = list(receive) if receive is not None else self.counts(axis, send)
        sent = _bytes(value.contiguous())
        came = sent.new_empty((sum(counts), *sent.shape[1:]))
        dist.all_to_all_single(came, sent, counts, list(send), group=self.groups[axis])
        return _typed(came, value.dtype), counts

    def counts(self, axis: str, send: Sequence[int]) -> list[int]:
        """How many rows each rank of the axis is about to send here."""
        told = torch.tensor(list(send), dtype=torch.int64, device=self.device)
        heard = torch.empty_like(told)
        dist.all_to_all_single(heard, told, group=self.groups[axis])
        return heard.tolist()

    def send_receive(
        self,
        value: torch.Tensor | None,
        axis: str,
        *,
        to: int | None = None,
        source: int | None = None,
        like: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """`value` to the place `to` of the axis, and what the place `source` sends, as large as
        `like`; either may be absent. All point-to-point sends of a step go out together."""
        ranks, group = self.axis(axis).ranks, self.groups[axis]
        came, asked = None, []
        if to is not None:
            assert value is not None
            asked.append(dist.P2POp(dist.isend, value.contiguous(), ranks[to], group))
        if source is not None:
            assert like is not None
            came = torch.empty_like(like, memory_format=torch.contiguous_format)
            asked.append(dist.P2POp(dist.irecv, came, ranks[source], group))
        for work in dist.batch_isend_irecv(asked) if asked else ():
            work.wait()
        return came

    def smallest(self, numbers: Sequence[int]) -> list[int]:
        """Of every number the least that any rank has: what all of them can agree on."""
        least = torch.tensor(list(numbers), dtype=torch.int64, device=self.device)
        if self.mesh.size > 1:
            dist.all_reduce(least, op=dist.ReduceOp.MIN, group=self.groups["all"])
        return least.tolist()

    def broadcast(self, value: torch.Tensor, axis: str, *, source: int = 0) -> torch.Tensor:
        """What the place `source` of the axis holds."""
        here = self.axis(axis)
        if here.size == 1:
            return value
        told = value.contiguous().clone()
        dist.broadcast(told, here.ranks[source], group=self.groups[axis])
        return told


def connect(mesh: Mesh, device: torch.device, *, timeout: float = TIMEOUT) -> Ranks:
    """Join the process group that torchrun's environment names, and make one for every axis.

    Collective: every rank calls it with the same mesh. Day0Error where the ranks that were started
    are not those of the mesh, or do not find one another within `timeout` seconds.
    """
    rank, world = rank_and_world()
    if world != mesh.size:
        started = "without torchrun" if RANK not in os.environ else f"as {world}"
        raise Day0Error(
            f"--mesh {mesh.name} has {mesh.size} ranks; this process was started {started}",
            hint=f"torchrun --nproc-per-node {mesh.size} -m day0 run MODEL --mesh {mesh.name}",
        )
    if not dist.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
        except (RuntimeError, ValueError) as error:
            raise Day0Error(
                f"rank {rank} of {world} did not reach the others within {timeout:g} s: {error}",
                hint="are all machines started with the same --rdzv-endpoint and reachable?",
            ) from error
    return ranks_of(mesh, rank, device, timeout=timeout)


def ranks_of(mesh: Mesh, rank: int, device: torch.device, *, timeout: float = TIMEOUT) -> Ranks:
    """Process groups for the axes of `mesh` in a process group that is already there. Collective:
    groups are made in the same order everywhere, one for every distinct set of ranks."""
    made: dict[tuple[int, ...], dist.ProcessGroup | None] = {tuple(range(mesh.size)): None}
    own: dict[str, dist.ProcessGroup | None] = {}
    for name in GROUPS:
        for ranks in mesh.groups(name):
            if len(ranks) > 1 and ranks not in made:
                group = dist.new_group(list(ranks), timeout=timedelta(seconds=timeout))
                made[ranks] = group if isinstance(group, dist.ProcessGroup) else None
            if rank in ranks:
                own[name] = made.get(ranks)
    return Ranks(mesh=mesh, rank=rank, device=device, groups=own)


def rank_and_world() -> tuple[int, int]:
    """This process among those that torchrun started; (0, 1) without it."""
    return int(os.environ.get(RANK, "0")), int(os.environ.get(WORLD, "1"))


def local_rank() -> int:
    """This process among those of its machine."""
    return int(os.environ.get(LOCAL, "0"))


def leave() -> None:
    """Leave the process group, where there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _padded(rows: torch.Tensor, count: int) -> torch.Tensor:
    """Contiguous, with rows of zeros up to `count`."""
    missing = count - rows.shape[0]
    if not missing:
        return rows.contiguous()
    return torch.cat([rows, rows.new_zeros((missing, *rows.shape[1:]))])


_ON_THE_WIRE = (torch.float32, torch.float64, torch.bfloat16, torch.float16,
                torch.int32, torch.int64, torch.uint8)  # fmt: skip


def _bytes(value: torch.Tensor) -> torch.Tensor:
    """What is only moved may go as bytes: backends do not know narrow formats."""
    return value if value.dtype in _ON_THE_WIRE else value.view(torch.uint8)


def _typed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.dtype == dtype else value.view(dtype)
