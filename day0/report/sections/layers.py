"""The layers: which kinds there are, how they follow each other, and what flows in each."""

from collections.abc import Mapping
from typing import Any

from day0.report.dataflow import flow
from day0.report.layer_kinds import LayerKind, layer_kinds, layer_of, ops_by_layer
from day0.report.model_map import model_map
from day0.report.numbers import spans
from day0.report.parts import (
    Choice,
    Part,
    Section,
    Strip,
    Table,
    Words,
    series,
    whole,
    word,
)


def layers(report: Mapping[str, Any]) -> Section:
    """Strip, kinds, the whole model, and one dataflow for each kind."""
    kinds = layer_kinds(report)
    numbers = {layer: number for number, kind in enumerate(kinds) for layer in kind.layers}
    strip = Strip(
        name="layers",
        boxes=tuple(
            (kinds[number].letter, number, f"layer {layer}: {kinds[number].title}")
            for layer, number in sorted(numbers.items())
        ),
        chooses="flows",
    )
    rows = tuple(
        (
            word(kind.letter, tone=series(number)),
            word(kind.mixer),
            word(kind.ffn),
            whole(len(kind.layers)),
            word(spans(kind.layers)),
        )
        for number, kind in enumerate(kinds)
    )
    table = Table(name="kinds", columns=("", "mixer", "ffn", "layers", "which"), rows=rows)
    residual = report["layers"][0]["residual"] if report["layers"] else "none"
    return Section(
        id="layers",
        title="Layers",
        lead=f"{len(numbers)} layers of {len(kinds)} kinds; residual path: {residual}.",
        parts=(strip, table, model_map(report, kinds), _flows(report, kinds)),
    )


def _flows(report: Mapping[str, Any], kinds: tuple[LayerKind, ...]) -> Choice:
    main = report["graph"]
    ops = ops_by_layer(main)
    options: list[tuple[str, tuple[Part, ...]]] = []
    for kind in kinds:
        title = f"Dataflow of layer {kind.shown} ({kind.title})"
        name = f"kind-{len(options)}"
        diagram = flow(name, title, ops.get(kind.shown, ()), main, report)
        notes: tuple[Part, ...] = ()
        if kind.variants > 1:
            text = (
                f"Layers of this kind come with {kind.variants} sets of operators; layer "
                f"{kind.shown} has the most frequent one."
            )
            notes = (Words(text=text, tone="dim"),)
        options.append((f"{kind.letter}  {kind.title}", (*notes, diagram)))
    around = [op for op in main["ops"] if layer_of(op["id"]) < 0]
    title = "Before and after the layers"
    options.append((title, (flow("around", title, around, main, report),)))
    for name, graph in report["drafts"].items():
        title = f"Dataflow of the draft {name}"
        note = Words(
            text="Verdicts are of the trunk's operators; a draft's are not judged.", tone="dim"
        )
        diagram = flow(f"draft-{name}", title, graph["ops"], graph, report)
        options.append((f"draft {name}", (note, diagram)))
    return Choice(name="flows", options=tuple(options))
