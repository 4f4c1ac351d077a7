"""What the tests of the delta rules' kernels share."""

import torch

from day0_kernels.compare import relative_errors


def near(actual, expected, bound=1e-5):
    """NaN in the same places, and within `bound` of each other relative to `expected`."""
    assert torch.equal(actual.isnan(), expected.isnan())
    assert relative_errors(actual, expected)[0] < bound


def part(arguments, first, last, start):
    """Tokens first..last of a one-sequence batch, on the same state."""
    tokens = arguments["q"].shape[0]
    rows = {
        name: value[first:last]
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and value.dim() == 2 and value.shape[0] == tokens
    }
    device = arguments["slot"].device
    bounds = torch.tensor([0, last - first], dtype=torch.int32, device=device)
    begin = torch.full_like(arguments["start"], start)
    return {**arguments, **rows, "cu_seqlens": bounds, "start": begin}


def without(arguments, *names):
    """`arguments` without some."""
    return {name: value for name, value in arguments.items() if name not in names}
