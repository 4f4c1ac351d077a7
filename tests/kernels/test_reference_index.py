"""Every family has a definition, and its parameters are the family's own words."""

import importlib
import inspect

import pytest

from day0.registry.family import REQUIRED
from day0.registry.index import NAMES, family
from day0_kernels.case import load
from day0_kernels.index import OTHER_FORMS, REFERENCES

# What ranks send has no definition on one of them, and is called by itself (runtime/exchange.py).
COLLECTIVES = {"all_gather", "all_reduce", "combine", "dispatch"}
WITHOUT = {"cache_write", "unknown", *COLLECTIVES}
STEP = {"cu_seqlens", "positions", "seq", "start", "length", "slot", "last"}
# Parts of the entries that families read and write, as the definitions name them.
PARTS = {
    "compress": {"tail_entry", "tail_gate", "pooled_entry"},
    "gdn": {"state"},
    "differential": {"key", "value"},
    "gqa": {"key", "value"},
    "indexer": {"entry"},
    "kda": {"state"},
    "kda_step": {"tail", "state"},
    "lightning": {"state"},
    "merged_short_conv": {"tail"},
    "mla": {"latent", "k_rope"},
    "shared_kv": {"window_kv", "compressed_entry"},
    "short_conv": {"tail"},
    "sparse_gqa": {"key", "value"},
    "sparse_mla": {"latent", "k_rope"},
}
# Scales of rows that arrive as codes: only kernels take those, the definitions never see any.
ROW_CODES = {"linear": {"x_scale"}, "merged_linear": {"x_scale"}}
ENTRIES = [(name, entry) for table in (REFERENCES, OTHER_FORMS) for name, entry in table.items()]
IDS = [entry.split(":")[1] for _, entry in ENTRIES]


def slots(name: str) -> dict[str, bool]:
    """Name -> required, of everything but attributes; "x*" arrives as the list x."""
    kind = family(name)
    named = (*kind.inputs, *kind.weights, *kind.outputs)
    return {slot.rstrip("?*"): slot[-1] != "?" for slot in named}


def fields(name: str) -> set[str]:
    prefixes = {"", *(f"{slot.rstrip('?')}_" for slot in family(name).caches)}
    return {f"{p}{field}" for p in prefixes for field in ("cu_history", "history_first")}


def test_all_families_are_there():
    assert set(REFERENCES) == set(NAMES) - WITHOUT
    assert set(OTHER_FORMS) <= set(REFERENCES)


@pytest.mark.parametrize("name", sorted(set(NAMES) - COLLECTIVES))
def test_no_word_means_two_things(name):
    """The binder finds a value by its name alone."""
    kind = family(name)
    words = [*slots(name), *kind.attrs, *PARTS.get(name, ())]
    named = [slot.rstrip("?*") for slot in (*kind.inputs, *kind.weights, *kind.outputs)]
    assert len(named) == len(set(named)), f"{name}: {named}"
    assert len(words) == len(set(words)), f"{name}: {sorted(words)}"
    assert not STEP & set(words)


@pytest.mark.parametrize(("name", "entry"), ENTRIES, ids=IDS)
def test_parameters_are_the_familys(name, entry):
    kind, own = family(name), slots(name)
    parameters = inspect.signature(load(entry)).parameters
    known = {*own, *kind.attrs, *PARTS.get(name, ()), *STEP, *fields(name)}
    needed = {w for w, p in parameters.items() if p.default is inspect.Parameter.empty}
    assert needed <= known
    told = {word for word, attr in kind.attrs.items() if not attr.restated}
    assert {*own, *told} - ROW_CODES.get(name, set()) <= set(parameters)
    for word, parameter in parameters.items():
        optional = parameter.default is not inspect.Parameter.empty
        if word in own:
            assert optional == (not own[word]), word
            assert not optional or parameter.default is None
        if word in kind.attrs:
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, word
            default = kind.attrs[word].default
            required = default is REQUIRED
            assert optional == (not required), word
            assert required or parameter.default == default, word


def test_definitions_need_no_triton():
    for _, entry in ENTRIES:
        module = importlib.import_module(entry.split(":")[0])
        assert not [v for v in vars(module).values() if getattr(v, "__name__", "") == "triton"]
