"""The files of one new operator: README, definition, kernel, cases, family, checklist."""

from collections.abc import Mapping, Sequence
from typing import Any

from day0.analysis.analyze import Analysis
from day0.analysis.inventory import Entry
from day0.analysis.worklist import NewOperator, WorkList
from day0.scaffold import layouts
from day0.scaffold.layouts import Layout
from day0.scaffold.render import literal, render
from day0.scaffold.signature import Parameter, signature

TENSOR = "torch.Tensor"
PLAIN = ("fp32", "bf16", "fp16")  # what cases are made up in
# (name, lengths, starts): one token, a ragged batch with an empty sequence, carried histories.
HELD_OUT = (
    ("one-token", (1,), (0,)),
    ("ragged", (7, 0, 1, 13), (0, 0, 0, 0)),
    ("carried", (5, 1, 3), (0, 9, 4)),
)


def operator_files(
    operator: NewOperator, work: WorkList, analysis: Analysis, package: str
) -> dict[str, str]:
    """Path -> text, paths below the package."""
    values = (_known if operator.family else _unknown)(operator, work, analysis)
    values |= {"op": operator, "package": package, "width": analysis.spec.shape.hidden_size}
    if not operator.family:
        values["reference"] = f"{package}.ops.{operator.stem}.reference:{operator.stem}"
    kinds = {
        "__init__.py": "operator/init.py",
        "README.md": "operator/README.md",
        "reference.py": "operator/known_reference.py"
        if operator.family
        else "operator/reference.py",
        "kernel.py": "operator/kernel.py",
        "cases.py": "operator/cases.py",
        "family.py": "operator/implementation.py" if operator.family else "operator/family.py",
        "checklist.yaml": "" if operator.family else "operator/checklist.yaml",
    }
    return {
        f"ops/{operator.stem}/{name}": render(template, **values)
        for name, template in kinds.items()
        if template
    }


def _unknown(operator: NewOperator, work: WorkList, analysis: Analysis) -> dict[str, Any]:
    model = layouts.of_unknown(operator, work.blocks, analysis.spec.shape.hidden_size)
    slot = next(block.slot for block in work.blocks if operator.stem in block.operators)
    mixes = slot == "mixer"
    names = ["x", *model.weights, *(("history_x",) if mixes else ()), "y"]
    names += ["cu_seqlens", "cu_history"] if mixes else []
    return {
        "slot": slot,
        "mixes": mixes,
        "weights": list(model.weights),
        "parameters": [Parameter(name=name, annotation=TENSOR) for name in names],
        "needs_any": False,
        "narrow": {},
        "function": operator.stem,
        "output": "y",
        "outputs": ["y"],
        "pages": bool(model.pages),
        "layouts": {"odd": layouts.odd(model), "model": model},
        "cases": [*_cases("odd"), *_model_cases({"model": model})],
    }


def _known(operator: NewOperator, work: WorkList, analysis: Analysis) -> dict[str, Any]:
    """A family with a definition of day0's own: the kernel takes the definition's arguments."""
    parameters = signature(operator.reference)
    found = {
        f"model-{number}": layouts.of_entry(entry, analysis.model)
        for number, entry in enumerate(operator.entries)
    }
    models = tuple(found.values())
    first = models[0]
    module, _, name = operator.reference.partition(":")
    # Operators of one family may differ in what they yield: those of every kind.
    filled = [
        name
        for entry, layout in zip(operator.entries, models, strict=True)
        for name in (*layout.outputs, *layouts.written(entry, analysis.model))
    ]
    taken = {parameter.name for parameter in parameters}
    outputs = [name for name in dict.fromkeys(filled) if name in taken]
    small = next((kind for kind, layout in found.items() if layout.is_small), "")
    if not small and not (first.pages or first.slots):
        # What a cache holds hangs on attributes that shapes do not show: only the others shrink.
        small, found = "odd", {**found, "odd": layouts.odd(first)}
    formats = [_formats(entry) for entry in operator.entries]
    return {
        "slot": "",
        "mixes": False,
        "reference": operator.reference,
        "reference_module": module,
        "reference_name": name,
        "known": list(zip(models, formats, strict=True)),
        "parameters": parameters,
        "needs_any": any("Any" in parameter.annotation for parameter in parameters),
        "function": name,
        "output": outputs[0],
        "outputs": outputs,
        "pages": any(layout.pages for layout in models),
        "layouts": found,
        "cases": [
            *(_cases(small) if small else ()),
            *_model_cases({name: layout for name, layout in found.items() if name != "odd"}),
        ],
        "formats": {
            slot: tuple(name for name in names if name in PLAIN) or PLAIN
            for slot, names in _every(formats).items()
        },
        "narrow": {
            slot: tuple(name for name in names if name not in PLAIN)
            for slot, names in _every(formats).items()
            if not set(names) <= set(PLAIN)
        },
        "attrs": _every([layout.attrs for layout in models]),
    }


def _formats(entry: Entry) -> dict[str, str]:
    """By weight and cache slot."""
    stored = {slot: spec.format for slot, spec in entry.shapes.weights.items()}
    return stored | {
        slot: spec.format for slot, parts in entry.shapes.caches.items() for spec in parts
    }


def _cases(layout: str) -> list[str]:
    """Held-out lengths, as arguments of the generated `_case`."""
    return [
        f'"{name}", "{layout}", {literal(lengths)}, {literal(starts)}, "interpret"'
        for name, lengths, starts in HELD_OUT
    ]


def _model_cases(found: Mapping[str, Layout]) -> list[str]:
    """The model's own sizes: on a CPU where they are small, in bf16 for a GPU."""
    rows = []
    for name, layout in found.items():
        tag = "interpret" if layout.is_small else "big"
        rows.append(f'"{name}", "{name}", (9, 2), (0, 6), "{tag}"')
        rows.append(f'"{name}-bf16", "{name}", (128,), (0,), "bench", dtype="bf16"')
    return rows


def _every(tables: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Per name all the different values."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {
        name: tuple(dict.fromkeys(table[name] for table in tables if name in table))
        for name in names
    }
