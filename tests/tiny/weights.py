"""Random weights at which every parameter matters.

A class initialises norms to one, biases to zero and decays to a constant; a comparison of such a
model cannot tell a norm from its absence. Here everything that is learned is drawn anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Buffers that the class computes from the config: the file holds them, nobody learns them.
COMPUTED_BUFFERS = (
    "slope_rate",
    "query_decay",
    "key_decay",
    "diagonal_decay",
    "layer_multipliers",
    "ngram_heads_vocab_sizes",
    "ngram_heads_offsets",
    "inv_freq",
    "original_inv_freq",
)
# Weights stored [experts, in, out], whose inner dim is not the last one.
INNER_DIM_SECOND = ("GptOssExperts",)


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Draw all parameters and learned buffers of the model in place, from the seed."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module_name, module in model.named_modules():
            tensors = [
                *module.named_parameters(recurse=False),
                *module.named_buffers(recurse=False),
            ]
            for leaf, tensor in tensors:
                # scalars are constants of a function (xIELU, an embedding's factor)
                if leaf in COMPUTED_BUFFERS or tensor.dim() == 0:
                    continue
                # save_pretrained writes what memory holds: no NaN may be left in it.
                value = draw_tensor(module, module_name, leaf, tensor, generator)
                tensor.copy_(value.to(tensor.dtype))


def draw_tensor(
    module: torch.nn.Module,
    module_name: str,
    leaf: str,
    tensor: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """A value for one tensor, of its shape, at a scale at which activations stay near one."""
    import torch

    shape = tuple(tensor.shape)

    def normal(scale: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * scale

    def uniform(low: float, high: float) -> torch.Tensor:
        return torch.rand(shape, generator=generator) * (high - low) + low

    if type(module).__name__ == "Gemma4RMSNorm" and module_name.endswith("q_norm"):
        # Scores are not divided by anything: at one they are as large as heads are wide, and a
        # softmax of such numbers blows rounding up.
        return uniform(0.15, 0.4)
    if leaf == "tid2eid":
        # Each token needs distinct experts, as a router would choose them.
        choices = [torch.randperm(module.num_experts, generator=generator) for _ in range(shape[0])]
        return torch.stack(choices)[:, : shape[1]]
    if leaf == "A_log":
        return uniform(0.3, 3.0).log()
    if leaf == "e_score_correction_bias":
        return uniform(-0.15, 0.15)
    if leaf == "alpha":
        return normal(0.2)
    if module_name.endswith(("ssmax_scaling", "softmax_scaling")):
        return uniform(0.2, 0.5)
    if isinstance(module, torch.nn.Embedding):
        return normal(1.0)
    if leaf == "scale" or leaf == "hc_scale":
        return uniform(0.5, 1.5)
    if tensor.dim() == 1:
        if leaf == "weight":
            # Norm weights start at one, zero-centred ones at zero.
            return uniform(-0.4, 0.6) if bool((tensor == 0).all()) else uniform(0.6, 1.6)
        return normal(0.4)
    if type(module).__name__ in INNER_DIM_SECOND:
        return normal(0.4) if leaf.endswith("bias") else normal(shape[1] ** -0.5)
    if leaf in ("index_kpool_compress_ape", "position_bias"):
        return normal(0.7)
    return normal(1.3 * shape[-1] ** -0.5)
