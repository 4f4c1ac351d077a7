"""Mermaid: each diagram is in the strict grammar of our subset, and keeps GitHub's limits."""

import re
from html import unescape

import pytest

from day0.report.mermaid import MOST_EDGES, MOST_LETTERS, fits, flowchart, label
from day0.report.parts import Diagram, Edge, Node
from tests.report.pages import HOSTILE, MODELS, diagrams, page_of

# Between quotes: letters, digits, a few marks, entities by number, and line breaks.
TEXT = r'"(?:[^\W_]|[ _.,:+\-/()\[\]=]|#\d+;|<br/>)*"'
STATEMENTS = (
    rf"n\d+(?:\[{TEXT}\]|\(\[{TEXT}\]\)|\[\({TEXT}\)\]|\[\[{TEXT}\]\])",
    rf"n\d+ (?:-->|-\.->)(?:\|{TEXT}\|)? n\d+",
    r"classDef [a-z]+ [a-z-]+:#?[0-9a-z]+(?:,[a-z-]+:#?[0-9a-z]+)*",
    r"class n\d+(?:,n\d+)* [a-z]+",
)


def assert_valid(text: str) -> None:
    first, *lines = text.splitlines()
    assert first == "flowchart TD"
    boxes, classes = set(), set()
    for line in lines:
        assert any(re.fullmatch(f"  {statement}", line) for statement in STATEMENTS), line
        if found := re.fullmatch(r"  (n\d+)[\[(].*", line):
            assert found[1] not in boxes
            boxes.add(found[1])
        elif found := re.fullmatch(r"  (n\d+) .*>.*? (n\d+)", line):
            assert {found[1], found[2]} <= boxes
        elif found := re.fullmatch(r"  classDef ([a-z]+) .*", line):
            classes.add(found[1])
        elif found := re.fullmatch(r"  class (.*) ([a-z]+)", line):
            assert set(found[1].split(",")) <= boxes
            assert found[2] in classes


@pytest.mark.parametrize("model", MODELS)
def test_every_diagram_of_a_report(model: str) -> None:
    found = diagrams(page_of(model))
    assert [diagram.name for diagram in found][0] == "model"
    for diagram in found:
        text = flowchart(diagram)
        assert_valid(text)
        assert fits(text, diagram), (diagram.name, len(text), len(diagram.edges))
        assert text.count("\n") >= 1 + len(diagram.nodes) + len(diagram.edges)


def test_labels_say_what_they_said() -> None:
    written = label(HOSTILE)
    assert re.fullmatch(TEXT, f'"{written}"')
    shown = unescape(re.sub(r"#(\d+);", r"&#\1;", written))
    assert shown == HOSTILE
    assert label("end %%{init} \u6a21\u578b\n") == "end #37;#37;#123;init#125; \u6a21\u578b#92;n"


def test_what_github_refuses_is_known() -> None:
    nodes = tuple(Node(id=str(at), label=str(at)) for at in range(2))
    many = Diagram(name="d", title="", nodes=nodes,
                   edges=(Edge(source="0", target="1"),) * (MOST_EDGES + 1))  # fmt: skip
    assert not fits(flowchart(many), many)
    wide = tuple(Node(id=str(at), label="x" * 110) for at in range(MOST_LETTERS // 100))
    large = Diagram(name="d", title="", nodes=wide, edges=())
    assert not fits(flowchart(large), large)
