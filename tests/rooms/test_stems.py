"""Nothing that a mechanism, a family or an operator needs in another room was forgotten."""

from pathlib import Path

import pytest

from tests.rooms import stems, tree

COMPLETE = {
    "day0/mechanisms/index.py": 'MECHANISMS = ("day0.mechanisms.kda:KDA",)',
    "day0/mechanisms/kda.py": "KDA = 1",
    "tests/mechanisms/test_kda.py": "",
    "day0/registry/index.py": "from day0.registry.families import kda",
    "day0/registry/families/kda.py": "FAMILY = 1",
    "checklists/ops/kda.yaml": "family: kda",
    "kernels/day0_kernels/__init__.py": 'OPS = ("kda",)',
    "kernels/day0_kernels/common/tiles.py": "",
    "kernels/day0_kernels/kda/__init__.py": "",
    "kernels/day0_kernels/kda/README.md": "",
    "kernels/day0_kernels/kda/reference.py": "",
    "kernels/day0_kernels/kda/cases.py": "",
}


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_every_stem_is_complete() -> None:
    assert stems.complaints(tree.ROOT) == []


def test_a_complete_tree_passes(tmp_path: Path) -> None:
    assert stems.complaints(plant(tmp_path, COMPLETE)) == []


def test_an_empty_tree_passes(tmp_path: Path) -> None:
    assert stems.complaints(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("tests/mechanisms/test_kda.py", "kda has no test"),
        ("day0/mechanisms/index.py", "kda is not listed in day0/mechanisms/index.py"),
        ("day0/registry/index.py", "kda is not listed in day0/registry/index.py"),
        ("checklists/ops/kda.yaml", "kda has no checklists/ops/kda.yaml"),
        ("kernels/day0_kernels/kda/README.md", "kernels/day0_kernels/kda has no README.md"),
        ("kernels/day0_kernels/kda/reference.py", "kernels/day0_kernels/kda has no reference.py"),
        ("kernels/day0_kernels/kda/cases.py", "kernels/day0_kernels/kda has no cases.py"),
        ("kernels/day0_kernels/__init__.py", "kda is not listed in kernels/day0_kernels"),
    ],
)
def test_a_missing_file_is_reported(tmp_path: Path, path: str, complaint: str) -> None:
    files = {name: text for name, text in COMPLETE.items() if name != path}
    found = stems.complaints(plant(tmp_path, files))
    assert len(found) == 1
    assert found[0].startswith(complaint)


def test_a_folder_of_definitions_has_no_cases(tmp_path: Path) -> None:
    door = "kernels/day0_kernels/__init__.py"
    files = {name: text for name, text in COMPLETE.items() if not name.endswith("kda/cases.py")}
    plant(tmp_path, files | {door: 'OPS = ()\nDEFINITIONS = ("kda",)'})
    assert stems.complaints(tmp_path) == []
    plant(tmp_path, {door: 'OPS = ("kda",)\nDEFINITIONS = ()'})
    assert stems.complaints(tmp_path) == ["kernels/day0_kernels/kda has no cases.py"]


def test_a_part_is_reached_through_its_mechanism(tmp_path: Path) -> None:
    part = {"day0/mechanisms/rope.py": "", "tests/mechanisms/test_rope.py": ""}
    found = stems.complaints(plant(tmp_path, COMPLETE | part))
    assert found == ["rope is not listed in day0/mechanisms/index.py, and no mechanism uses it"]
    user = {"day0/mechanisms/kda.py": "from day0.mechanisms.rope import ROPE"}
    assert stems.complaints(plant(tmp_path, user)) == []


def test_a_checklist_may_cover_other_families(tmp_path: Path) -> None:
    gate = {
        "day0/registry/families/gate.py": "",
        "day0/registry/index.py": 'NAMES = ("kda", "gate")',
    }
    found = stems.complaints(plant(tmp_path, COMPLETE | gate))
    assert found == ["gate has no checklists/ops/gate.yaml, and no other one covers it"]
    covering = {"checklists/ops/basic.yaml": "family: basic\ncovers: [gate]\n"}
    assert stems.complaints(plant(tmp_path, covering)) == []


def test_a_checklist_of_no_family_is_reported(tmp_path: Path) -> None:
    stray = {"checklists/ops/gdn.yaml": "family: gdn"}
    found = stems.complaints(plant(tmp_path, COMPLETE | stray))
    assert found == ["checklists/ops speaks of gdn, which is no family"]


def test_a_test_that_names_the_mechanism_counts(tmp_path: Path) -> None:
    files = {name: text for name, text in COMPLETE.items() if not name.startswith("tests/")}
    files["tests/mechanisms/test_linear.py"] = 'KINDS = ("gdn", "kda")'
    assert stems.complaints(plant(tmp_path, files)) == []
