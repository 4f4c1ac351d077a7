"""Every session of a subject is what it was asked to be: no cell compares a thing with itself."""

from day0.ir.recipe import RECIPES
from day0.passes.lower import OPTIONAL
from day0.runtime.opening import open_model
from day0.validate.subject import Subject


def test_sessions_differ_as_asked() -> None:
    opened = open_model("demo", quant="fp8", backend="auto", device="cpu", layers=4)
    subject = Subject(opened, seed=1)
    exact = subject.session()
    assert {row.runs for row in exact.precision.rows} == {"fp32"}
    fp8 = subject.session(RECIPES["fp8"])
    assert {"fp8_b128", "mxfp8"} <= {row.runs for row in fp8.precision.rows}
    bf16 = subject.session(RECIPES["bf16"])
    assert {row.runs for row in bf16.precision.rows} <= {"bf16", "fp32"}
    plain = subject.session(without=tuple(OPTIONAL))
    ops = plain.lowered["prefill"].graph.ops
    assert ops == opened.model.graphs["main"].ops
    assert exact.lowered["prefill"].graph.ops != ops
    assert subject.session() is exact
