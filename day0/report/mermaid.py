"""A diagram in Mermaid's flowchart language, as GitHub renders it.

Only a subset is written: boxes with quoted labels, two kinds of arrows, classes for tones. Every
letter with a meaning of its own stands in a label as an entity.
"""

from day0.report.numbers import plain
from day0.report.parts import Diagram, Edge, Node

# GitHub refuses larger ones.
MOST_LETTERS, MOST_EDGES = 50_000, 500
LONGEST_LABEL = 120
_PLAIN = frozenset(" _.,:+-/()[]=")
_SHAPES = {"input": ("([", "])"), "output": ("([", "])"), "cache": ("[(", ")]"),
           "part": ("[[", "]]"), "layers": ("[[", "]]")}  # fmt: skip
_CLASSES = {
    "good": "fill:#e6f4ea,stroke:#2e7d4f,color:#12351f",
    "warn": "fill:#fff4d6,stroke:#9a6b00,color:#3d2b00",
    "bad": "fill:#fde7e4,stroke:#b3392b,color:#4a120b,stroke-width:2px",
}


def fits(text: str, diagram: Diagram) -> bool:
    """Whether GitHub shows it."""
    return len(text) <= MOST_LETTERS and len(diagram.edges) <= MOST_EDGES


def flowchart(diagram: Diagram) -> str:
    """The diagram's text, one statement a line."""
    ids = {node.id: f"n{number}" for number, node in enumerate(diagram.nodes)}
    lines = ["flowchart TD"]
    lines += [f"  {ids[node.id]}{_box(node)}" for node in diagram.nodes]
    for edge in diagram.edges:
        words = edge.label if diagram.labelled else ""
        lines.append(f"  {ids[edge.source]} {_arrow(edge, words)} {ids[edge.target]}")
    for tone, style in _CLASSES.items():
        members = [ids[node.id] for node in diagram.nodes if node.tone == tone]
        if members:
            lines += [f"  classDef {tone} {style}", f"  class {','.join(members)} {tone}"]
    return "\n".join(lines) + "\n"


def label(text: str) -> str:
    """Text as it may stand between quotes."""
    short = plain(text)
    short = short if len(short) <= LONGEST_LABEL else f"{short[: LONGEST_LABEL - 3]}..."
    return "".join(
        letter if letter.isalnum() or letter in _PLAIN else f"#{ord(letter)};" for letter in short
    )


def _box(node: Node) -> str:
    opening, closing = _SHAPES.get(node.kind, ("[", "]"))
    lines = [label(text) for text in _lines(node) if text]
    return f'{opening}"{"<br/>".join(lines)}"{closing}'


def _lines(node: Node) -> tuple[str, ...]:
    return node.label, node.remark, f"keeps {node.keeps}" if node.keeps else ""


def _arrow(edge: Edge, words: str) -> str:
    stroke = "-.->" if edge.style else "-->"
    return f'{stroke}|"{label(words)}"|' if words else stroke
