"""100,000 tokens of strong and of weak decay: outputs and the final state stay those of fp64.

The truth is the chunked definition in fp64 (the recurrence token by token would take minutes),
eager torch the same in fp32 on the bf16 inputs. On a GPU only.
"""

from typing import Any

import pytest
import torch

from day0_kernels.case import Case, converted, load, op_module
from day0_kernels.compare import check
from day0_kernels.gdn.reference import gdn_chunked
from day0_kernels.kda.chunked import chunked
from day0_kernels.kda.reference import prepared
from day0_kernels.lightning.reference import lightning_chunked
from tests.kernels.recurrences import without

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="bf16, and minutes on a CPU"),
]
TOKENS = 100_000
KDA = {"num_heads": 1, "head_dim": 128, "value_dim": 128}
BOUNDED, SOFTPLUS = ({"decay": "bounded", "lower_bound": -5.0},
                     {"decay": "softplus", "lower_bound": None})  # fmt: skip
GDN = {"num_key_heads": 1, "num_heads": 1, "head_dim": 128, "value_dim": 128}
CASES = {
    "kda-strong": ("kda", KDA | SOFTPLUS, 12.0),
    "kda-weak": ("kda", KDA | SOFTPLUS, -12.0),
    "kda-bounded-strong": ("kda", KDA | BOUNDED, 12.0),
    "kda-bounded-weak": ("kda", KDA | BOUNDED, -12.0),
    "gdn-strong": ("gdn", GDN, 12.0),
    "gdn-weak": ("gdn", GDN, -12.0),
    "lightning-strong": ("lightning", {"num_heads": 2, "head_dim": 128, "slope_scale": 1.25}, 0.0),
    "lightning-weak": ("lightning", {"num_heads": 2, "head_dim": 128, "slope_scale": 1e-5}, 0.0),
}


def kda_chunked(
    *, state: Any, o: Any, slot: Any, start: Any, cu_seqlens: Any, **given: Any
) -> None:
    """KDA of one fresh sequence with one head, chunk by chunk."""
    q, k, v, g, beta = (x[:, 0] for x in prepared(**without(given, "start", "cu_seqlens")))
    zero = torch.zeros(k.shape[1], v.shape[1], dtype=k.dtype, device=k.device)
    out, final = chunked(zero, q, k, v, g, beta, 64)
    o.copy_(out)
    state[int(slot[0]), 0] = final


DEFINITIONS = {"kda": kda_chunked, "gdn": gdn_chunked, "lightning": lightning_chunked}


@pytest.mark.parametrize("name", CASES)
def test_100k_tokens(name, device, generator):
    op, attrs, shift = CASES[name]
    module = op_module(op)
    case = Case(name=name, pair="prefill", attrs=attrs,
                dims={"lengths": (TOKENS,), "gate_shift": shift})  # fmt: skip
    arguments = module.inputs(case, device, generator)
    pair = next(pair for pair in module.PAIRS if pair.name == "prefill")
    truth, eager = converted(arguments, torch.float64), converted(arguments)
    DEFINITIONS[op](**truth)
    DEFINITIONS[op](**eager)
    load(pair.kernel)(**arguments)
    eager["state"] = eager["state"].bfloat16()  # `Pair.wide`: its terms have the inputs' accuracy
    at = int(arguments["slot"][0])
    for output in pair.outputs:
        which = at if output == "state" else slice(None)
        check(output, arguments[output][which], eager[output][which], truth[output][which],
              module.TOLERANCE["bf16"])  # fmt: skip
