"""What the safetensors headers of a checkpoint say: names, dtypes, shapes, places."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

# Bits of an element by safetensors dtype (huggingface/safetensors, the Dtype list of 0.8).
DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


class TensorHeader(NamedTuple):
    """One tensor: dtype string, stored shape, byte offsets within its shard's data, shard name."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    shard: str

    @property
    def elements(self) -> int:
        """Stored elements (packed ones count once)."""
        total = 1
        for dim in self.shape:
            total *= dim
        return total

    @property
    def bytes(self) -> int:
        """Stored bytes."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """All tensors of a checkpoint by name, and the shards they stand in."""

    tensors: Mapping[str, TensorHeader]
    shards: tuple[str, ...]

    @property
    def data_bytes(self) -> int:
        """Bytes of tensor data over all shards."""
        return sum(header.stop - header.start for header in self.tensors.values())
