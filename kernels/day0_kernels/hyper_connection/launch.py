"""Launch tables of the hyper-connections."""

from dataclasses import dataclass

import torch
import triton

from day0_kernels.common.workspace import Shapes, total_bytes

PROGRAMS = 256  # about two for each multiprocessor of an H200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLaunch:
    """Of the projection: tokens and channels of a step, steps of a program, programs a token; of
    the mix: channels of a program."""

    block_tokens: int
    block_k: int
    steps: int
    splits: int
    block_hidden: int
    num_warps: int = 4
    num_stages: int = 3

    def shapes(self, num_tokens: int, num_streams: int) -> Shapes:
        """Scratch: the partial products and sums of squares."""
        width = columns(num_streams)
        return {
            "part": ((self.splits, num_tokens, width), torch.float32),
            "squares": ((self.splits, num_tokens), torch.float32),
        }


def columns(num_streams: int) -> int:
    """Columns of the padded projection: pre and post, then the square mix."""
    return 2 * int(triton.next_power_of_2(num_streams)) ** 2


def read_launch(
    capability: tuple[int, int], *, num_tokens: int, width: int, num_streams: int
) -> ReadLaunch:
    """Swept on an H200 on 2026-12-01 with 4 streams of 4,096 channels."""
    few = num_tokens <= 128
    block_tokens, block_k = (16, 256) if few else (128, 64)
    steps_in_all = triton.cdiv(width, block_k)
    tiles = triton.cdiv(num_tokens, block_tokens)
    splits = min(max(PROGRAMS // max(tiles, 1), 1), steps_in_all, 64)
    steps = triton.cdiv(steps_in_all, splits)
    hidden = int(triton.next_power_of_2(width // num_streams))
    return ReadLaunch(
        block_tokens=block_tokens,
        block_k=block_k,
        steps=steps,
        splits=triton.cdiv(steps_in_all, steps),
        block_hidden=min(hidden, 1024 if few else 2048),
        num_warps=4 if few else 8,
        num_stages=2 if few else 4,
    )


def workspace_bytes(
    *, num_tokens: int, width: int, num_streams: int, capability: tuple[int, int]
) -> int:
    """Bytes of `workspace` that `hyper_connection` needs for these sizes."""
    launch = read_launch(capability, num_tokens=num_tokens, width=width, num_streams=num_streams)
    return total_bytes(launch.shapes(num_tokens, num_streams))


def write_launch(num_tokens: int, hidden: int) -> tuple[int, int]:
    """(channels of a program, warps)."""
    return min(int(triton.next_power_of_2(hidden)), 512 if num_tokens <= 128 else 2048), 4
