"""Every case of every op: the kernel is as near to fp64 as its tolerance asks."""

import inspect

import pytest
import torch

from day0_kernels import OPS
from day0_kernels.case import DTYPES, load, op_module
from day0_kernels.compare import parity

GPU = torch.cuda.is_available()
MODULES = {op: op_module(op) for op in OPS}
PAIRS = [(op, pair) for op, module in MODULES.items() for pair in module.PAIRS]
CASES = [
    (op, case)
    for op, module in MODULES.items()
    for case in module.CASES
    if "big" not in case.tags and (GPU or "interpret" in case.tags)
]


@pytest.mark.parametrize(("op", "case"), CASES, ids=[f"{op}-{case.name}" for op, case in CASES])
def test_parity(op, case, device, generator):
    module = MODULES[op]
    pair = next(p for p in module.PAIRS if p.name == case.pair)
    arguments = module.inputs(case, device, generator)
    errors = parity(
        load(pair.reference),
        load(pair.kernel),
        arguments,
        pair,
        module.TOLERANCE[case.dtype],
        DTYPES[case.dtype],
    )
    assert [e.output for e in errors] == list(pair.outputs)


@pytest.mark.parametrize(("op", "pair"), PAIRS, ids=[f"{op}-{pair.name}" for op, pair in PAIRS])
def test_signatures_agree(op, pair):
    reference = inspect.signature(load(pair.reference))
    kernel = inspect.signature(load(pair.kernel))
    # what a kernel does not take: the binder refuses switches at another value than their own,
    # and slots that are not empty
    left = reference.parameters.keys() - kernel.parameters.keys()
    for name in left:
        parameter = reference.parameters[name]
        switch = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert (
            parameter.default is not inspect.Parameter.empty
            if switch
            else parameter.default is None
        )
    taken = [value for name, value in reference.parameters.items() if name not in left]
    assert taken == list(kernel.parameters.values())


@pytest.mark.parametrize("op", OPS)
def test_every_pair_has_cases(op):
    module = MODULES[op]
    names = [case.name for case in module.CASES]
    assert len(names) == len(set(names))
    tested = {c.pair for c in module.CASES if "interpret" in c.tags}
    timed = {c.pair for c in module.CASES if "bench" in c.tags}
    assert tested == {pair.name for pair in module.PAIRS}
    assert timed <= tested
    assert all(module.work(case).bytes > 0 for case in module.CASES)
