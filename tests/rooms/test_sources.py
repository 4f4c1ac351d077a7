"""Sources against the rules of tests/rooms/sources.py and tests/rooms/tree.py."""

from pathlib import Path, PurePosixPath

import pytest

from tests.rooms import sources, tree

KNOWN = tree.ROOT / "day0" / "models" / "known"


def texts(*folders: str) -> list[tuple[PurePosixPath, str]]:
    return [
        (PurePosixPath(path), (tree.ROOT / path).read_text())
        for path in tree.files()
        if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in folders)
    ]


def test_no_room_below_the_models_names_one() -> None:
    types = sources.model_types(KNOWN)
    found: list[str] = []
    for path, source in texts(*(f"day0/{room}" for room in sources.NAMELESS_ROOMS)):
        found += sources.model_names(path, source, types)
    assert found == []


def test_known_holds_only_literals() -> None:
    found: list[str] = []
    for path, source in texts("day0/models/known"):
        found += sources.not_literal(path, source)
    assert found == []


def test_low_rooms_neither_print_nor_exit() -> None:
    found: list[str] = []
    for path, source in texts("day0", "kernels"):
        if path.parts[1] != "cli":
            found += sources.talking(path, source)
    assert found == []


def test_committed_files_are_short_and_name_no_machine() -> None:
    found: list[str] = []
    for path in tree.files():
        content = tree.text(path)
        if content is not None:
            found += tree.complaints(path, content)
    assert found == []


def test_kernels_is_no_package() -> None:
    # A regular package called `kernels` would hide the one that transformers imports.
    assert not (tree.ROOT / "kernels" / "__init__.py").exists()


@pytest.mark.parametrize(
    "source",
    [
        'if spec.model_type == "kimi_k3": pass',
        'TABLE = {"glm5_next": 1}',
        'match name:\n    case "llama": pass',
        'architecture = "KimiLinearForCausalLM"',
    ],
    ids=["compared", "key", "match", "class"],
)
def test_a_planted_model_name_is_reported(source: str) -> None:
    found = sources.model_names(PurePosixPath("day0/passes/x.py"), source, sources.MODEL_TYPES)
    assert len(found) == 1
    assert "names a model" in found[0]


@pytest.mark.parametrize(
    "source", ['"""As kimi_k3 does it."""', 'kind = "llama3"', "def kimi_k3(): ..."]
)
def test_speaking_of_a_model_is_fine(source: str) -> None:
    path = PurePosixPath("day0/passes/x.py")
    assert sources.model_names(path, source, sources.MODEL_TYPES) == []


def test_model_types_are_read_from_known(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text('MODEL_TYPES = ("newest",)\nKEYS = {"hidden_size": 1}\n')
    (tmp_path / "facts.py").write_text('KNOWN = ({"types": ("newer",), "words": ("eps",)},)\n')
    (tmp_path / "defaults.json").write_text('{"defaults": {"new": {}, "mamba2": {}}}')
    types = sources.model_types(tmp_path)
    assert {"newest", "newer", "new", "kimi_k3"} <= types
    assert not types & {"hidden_size", "eps", "defaults", "mamba2"}


@pytest.mark.parametrize(
    "source",
    [
        "def read(config): return config",
        "VALUES = [n for n in range(4)]",
        "VALUE = compute(3)",
        "for n in (1, 2): pass",
        "TABLE['a'] = 1",
        "VALUE = lambda x: x",
        "if True:\n    X = 1",
    ],
)
def test_a_planted_statement_in_known_is_reported(source: str) -> None:
    found = sources.not_literal(PurePosixPath("day0/models/known/x.py"), source)
    assert len(found) == 1
    assert "only literals" in found[0]


def test_literals_in_known_pass() -> None:
    source = (
        '"""Words."""\nfrom day0.ir import Fact\nKEYS: dict[str, int] = {"a": -1, **OTHER}\n'
        '"""What a value means."""\nSETS = frozenset({"x"}) | MORE\n'
        'FACTS = (Fact(path="rope.pairing", value="neox", how="known"),)\n'
    )
    assert sources.not_literal(PurePosixPath("day0/models/known/x.py"), source) == []


@pytest.mark.parametrize(
    "source",
    ["print(1)", "import sys\nsys.exit(2)", "def f():\n    raise SystemExit(1)"],
    ids=["print", "exit", "raise"],
)
def test_a_planted_print_or_exit_is_reported(source: str) -> None:
    found = sources.talking(PurePosixPath("day0/ir/x.py"), source)
    assert len(found) == 1
    assert "low room" in found[0]


def test_a_script_may_print_in_main() -> None:
    source = (
        "def main():\n    print(1)\n\nif __name__ == '__main__':\n    raise SystemExit(main())\n"
    )
    assert sources.talking(PurePosixPath("day0/demo/build.py"), source) == []


# In pieces, so that this file passes the test above.
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("cd /ro" + "ot/venv", "path of one machine"),
        ('PLACE = "/wo' + 'rk/main"', "path of one machine"),
        ("/ho" + "me/someone/models", "path of one user"),
        ("index = https://py" + "pi.org/simple", "registry's host name"),
        ("npm config set registry https://registry.npm" + "js.org", "registry's host name"),
        ("p = tl.make_block_" + "ptr(x)", "block pointers"),
        ("# TO" + "DO later", "without a link"),
    ],
)
def test_a_planted_line_is_reported(line: str, complaint: str) -> None:
    found = tree.complaints(Path("README.md"), f"fine\n{line}\n")
    assert len(found) == 1
    assert complaint in found[0]
    assert "README.md:2:" in found[0]


def test_a_long_file_is_reported() -> None:
    assert tree.complaints(Path("day0/x.py"), "x = 1\n" * tree.MAX_LINES) == []
    found = tree.complaints(Path("day0/x.py"), "x = 1\n" * (tree.MAX_LINES + 1))
    assert found == ["day0/x.py: 401 lines, the ceiling is 400"]


def test_ordinary_lines_pass() -> None:
    lines = "see docs/work/notes and ~/work/main\nhttps://huggingface.co/root/x\nframework/main\n"
    assert tree.complaints(Path("README.md"), lines) == []


def test_a_bare_copy_lists_the_same_kind_of_files(tmp_path: Path) -> None:
    for name in ("day0/x.py", ".venv/lib/y.py", "day0/__pycache__/x.pyc", "build/z.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert tree.files(tmp_path) == (Path("day0/x.py"),)
