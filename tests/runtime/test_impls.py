"""Every implementation that the registry names really exists, and its proof does too."""

import importlib
import inspect

import pytest

from day0.registry.family import Impl
from day0.registry.index import NAMES, family
from day0.runtime.binder import STEP
from day0_kernels.case import op_module
from day0_kernels.index import REFERENCES

IMPLS = [(name, impl) for name in NAMES for impl in family(name).impls]


def ids(value: object) -> str:
    return value.entry if isinstance(value, Impl) else str(value)


@pytest.mark.parametrize(("name", "impl"), IMPLS, ids=ids)
def test_the_entry_exists(name: str, impl: Impl) -> None:
    module, _, function = impl.entry.partition(":")
    if impl.backend == "triton":
        pytest.importorskip("triton")
    assert callable(getattr(importlib.import_module(module), function))
    assert set(impl.attrs) <= set(family(name).attrs)


@pytest.mark.parametrize(
    ("name", "impl"), [(n, i) for n, i in IMPLS if i.backend == "triton"], ids=ids
)
def test_a_kernel_names_a_parity_case_of_its_own_entry(name: str, impl: Impl) -> None:
    op, _, wanted = impl.parity.partition("/")
    cases = op_module(op)
    case = next(case for case in cases.CASES if case.name == wanted)
    pair = next(pair for pair in cases.PAIRS if pair.name == case.pair)
    assert pair.kernel == impl.entry


def test_references_are_those_that_the_kernels_list() -> None:
    named = {
        name: impl.entry for name, impl in IMPLS if impl.backend == "reference"
    }  # at most one a family
    assert named == REFERENCES


@pytest.mark.parametrize("name", [name for name in REFERENCES if family(name).rowwise])
def test_row_wise_definitions_ask_nothing_of_the_step(name: str) -> None:
    module, _, function = REFERENCES[name].partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), function)).parameters
    assert not set(parameters) & set(STEP)
