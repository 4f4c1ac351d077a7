"""Argument checks of the entries: one sentence that names the tensor and both shapes."""

import torch


def check_shape(name: str, tensor: torch.Tensor, dims: str, expected: tuple[int, ...]) -> None:
    """Raise ValueError unless `tensor` has the shape `expected` and a contiguous last dim."""
    if tuple(tensor.shape) != expected:
        shape = list(tensor.shape)
        raise ValueError(f"{name} must be [{dims}] = {list(expected)}, got {shape}")
    if tensor.dim() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        stride = tensor.stride(-1)
        raise ValueError(f"{name} must be contiguous in its last dim, stride is {stride}")


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def check_power_of_two(name: str, value: int, low: int, high: int) -> None:
    """Raise ValueError unless `value` is a power of two in [low, high]."""
    if not low <= value <= high or value & (value - 1):
        raise ValueError(f"{name} must be a power of two from {low} to {high}, got {value}")


def capability(tensor: torch.Tensor) -> tuple[int, int]:
    """Compute capability of the tensor's device; (0, 0) on a CPU, where the interpreter runs."""
    return torch.cuda.get_device_capability(tensor.device) if tensor.is_cuda else (0, 0)


def verified(tokens: int, sequences: int, versions: int) -> int:
    """Tokens per sequence of a verify step; ValueError unless equal and at most `versions`."""
    if sequences and (tokens % sequences or tokens // sequences > versions):
        raise ValueError(
            f"q must hold the same number of tokens, at most {versions} (the versions of state), "
            f"for each of {sequences} sequences, got {tokens}"
        )
    return tokens // max(sequences, 1)
