"""How many CPU threads a model deserves."""

import os

import torch

from day0.ir.graph import Model

# Below this many elements a product is done before the threads have met: on a shared machine the
# demo's step took 640 ms with two waiting threads and 12 ms with one (2026-12-01).
WIDE = 1 << 22


def suit_threads(model: Model, device: str) -> None:
    """One thread for a model of small matrices on a CPU. A user's OMP_NUM_THREADS is left alone.

    For a process that runs one model, as the command line does; the Python API does not call it.
    """
    if device != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return
    widest = max((w.spec.width for w in model.weights.values() if len(w.spec.dims) == 2), default=0)
    if widest < WIDE:
        torch.set_num_threads(1)
