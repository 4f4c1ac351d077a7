"""Each operator is defined, and its kernel is as near to the definition as its tolerance asks."""

import inspect
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from day0.models.plugin import load_plugin
from day0.registry.index import family
from day0.registry.written import is_written, parity, record
from day0_kernels import compare
from day0_kernels.case import DTYPES, load

import day0_day0_demo

OPS = day0_day0_demo.OPS
FOLDER = Path(day0_day0_demo.__file__).parent / "ops"
ROOT = FOLDER.parents[1]
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.mark.parametrize("op", OPS)
def test_parity(op: str) -> None:
    """The one that fails until the operator is there; then it is kept that it passed."""
    cases = import_module(f"day0_day0_demo.ops.{op}.cases")
    (pair,) = cases.PAIRS
    module, _, name = pair.reference.partition(":")
    is_ours = module.startswith("day0_day0_demo.")
    written = not is_ours or is_written(FOLDER / op / "reference.py", name)
    assert written, f"write the definition in {FOLDER / op / 'reference.py'}"
    compared = []
    for number, case in enumerate(cases.CASES):
        if "big" in case.tags or not (GPU or "interpret" in case.tags):
            continue
        generator = torch.Generator(device=DEVICE).manual_seed(number)
        arguments = cases.inputs(case, DEVICE, generator)
        tolerance = cases.TOLERANCE[case.dtype]
        kernel = load(pair.kernel)
        # A kind of this operator may lack some of the outputs.
        outputs = tuple(name for name in pair.outputs if name in arguments)
        own = replace(pair, outputs=outputs)
        try:
            compare.parity(
                load(pair.reference), kernel, arguments, own, tolerance, DTYPES[case.dtype]
            )
        except compare.Mismatch as error:
            pytest.fail(f"write the kernel in {FOLDER / op / 'kernel.py'}: {case.name}: {error}")
        compared.append(case.name)
    kernel = FOLDER / op / "kernel.py"
    assert compared, f"write the kernel in {kernel}: no case is small enough here, run it on a GPU"
    record(FOLDER / op, f"{op}/{compared[0]}", DEVICE if GPU else "cpu, Triton's interpreter")


@pytest.mark.parametrize("op", OPS)
def test_signatures_agree(op: str) -> None:
    (pair,) = import_module(f"day0_day0_demo.ops.{op}.cases").PAIRS
    reference, kernel = load(pair.reference), load(pair.kernel)
    assert list(inspect.signature(kernel).parameters.values()) == list(
        inspect.signature(reference).parameters.values()
    )


@pytest.mark.parametrize("op", OPS)
def test_arguments_are_made_for_every_small_case(op: str) -> None:
    cases = import_module(f"day0_day0_demo.ops.{op}.cases")
    for case in cases.CASES:
        if "interpret" in case.tags:
            arguments = cases.inputs(case, "cpu", torch.Generator().manual_seed(0))
            rows = sum(case.dims["lengths"])
            for name, dims in cases.LAYOUTS[case.dims["layout"]].outputs.items():
                assert arguments[name].shape == (rows, *dims)
            assert cases.work(case).bytes > 0


@pytest.mark.parametrize("op", OPS)
def test_a_kernel_counts_with_its_parity_alone(op: str) -> None:
    load_plugin(ROOT)
    module = f"day0_day0_demo.ops.{op}.kernel"
    (impl,) = [impl for impl in family(op).impls if impl.entry.partition(":")[0] == module]
    assert impl.backend == "triton"
    # It may have passed a moment ago: day0 had looked by then.
    assert impl.parity in ("", parity(FOLDER / op))
