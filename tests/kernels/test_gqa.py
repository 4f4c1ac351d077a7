"""Properties of grouped-query attention that parity with a definition does not show."""

import pytest

from day0_kernels.gqa.gathered import gqa_gathered
from day0_kernels.gqa.reference import gqa
from tests.kernels.ragged import Step, close, drawn

SIZES = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 12, "value_dim": 12, "scale": 0.4}


@pytest.mark.parametrize("starts", [(0, 0, 0), (5, 0, 3)])
def test_torchs_attention_is_the_definition(seed, starts):
    draw, lengths = drawn(seed), (4, 1, 7)
    full = [draw(s + n, 2, 12) for s, n in zip(starts, lengths, strict=True)]
    step = Step(ids=(0, 1, 2), starts=starts, lengths=lengths)
    key, cu, first = step.history(full)
    value, q = draw(*key.shape), draw(12, 6 * 12)
    found, wanted = step.empty(72), step.empty(72)
    for function, y in ((gqa_gathered, found), (gqa, wanted)):
        function(q, key, value, y, step.cu_seqlens, step.positions, cu, first, **SIZES)
    close(found, wanted, 2e-6)
