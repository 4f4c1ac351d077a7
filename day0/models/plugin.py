"""--plugin DIR: operators and mechanisms that day0 does not ship, from a folder of the user's.

DIR holds plugin.py with one function, `register(registry)`, which calls methods of `Registry`:

    def register(registry):
        registry.family(FAMILY)              # day0.registry.family.Family: a new operator family
        registry.reference("name", function) # its definition; parameters as slots and attributes
        registry.implementation("name", IMPL)  # day0.registry.family.Impl: a kernel for a family
        registry.mixer(MECHANISM)            # day0.mechanisms.spec.Mechanism, asked before ours
        registry.ffn(MECHANISM)
        registry.checklist(PATH)             # a file in the form of checklists/ops/

An installed package does the same under an entry point of the group "day0.plugins" that names its
`register`; --plugin then takes the entry point's name. `day0 scaffold` writes both.

What is registered holds for the whole process. A plugin is the user's own code and runs as such:
day0 never takes one from a checkpoint.
"""

import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from day0.errors import Day0Error
from day0.mechanisms.index import MECHANISMS, add_mechanism
from day0.mechanisms.spec import Mechanism
from day0.registry.family import Family, Impl
from day0.registry.index import (
    add_checklist,
    add_family,
    add_implementation,
    add_reference,
    exists,
)

FILE = "plugin.py"
GROUP = "day0.plugins"
_HINT = "DIR/plugin.py defines register(registry); day0/models/plugin.py shows what it may call"
_loaded: set[Path] = set()
T = TypeVar("T")


class Registry:
    """What a plugin may add; it is kept until `commit`. ValueError for a name that is taken,
    TypeError for another thing."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._references: dict[str, str] = {}
        self._impls: list[tuple[str, Impl]] = []
        self._checklists: list[Path] = []
        self._mechanisms: dict[str, tuple[str, Mechanism]] = {}

    def family(self, family: Family) -> None:
        """A new operator family."""
        name = _checked(family, Family).name
        if exists(name) or name in self._families:
            raise ValueError(f"the operator family {name!r} exists already")
        self._families[name] = family

    def reference(self, family: str, function: Callable[..., None]) -> None:
        """The definition of a family, a function at the top of its module. It wins over the
        shipped one."""
        if not callable(function):
            raise TypeError(f"a reference is a function, not {type(function).__name__}")
        self._known(family)
        self._references[family] = f"{function.__module__}:{function.__name__}"

    def implementation(self, family: str, impl: Impl) -> None:
        """A kernel for a family, asked before the shipped ones."""
        self._known(family)
        self._impls.append((family, _checked(impl, Impl)))

    def checklist(self, path: Path) -> None:
        """A checklist for a family, in the form of checklists/ops/."""
        if not path.is_file():
            raise ValueError(f"there is no checklist {path}")
        self._checklists.append(path)

    def mixer(self, mechanism: Mechanism) -> None:
        """A mechanism for what mixes tokens."""
        self._mechanism("mixer", mechanism)

    def ffn(self, mechanism: Mechanism) -> None:
        """A mechanism for a feed-forward."""
        self._mechanism("ffn", mechanism)

    def commit(self) -> None:
        """Everything at once, for the rest of the process."""
        for family in self._families.values():
            add_family(family)
        for name, entry in self._references.items():
            add_reference(name, entry)
        for name, impl in self._impls:
            add_implementation(name, impl)
        for path in self._checklists:
            add_checklist(path)
        for slot, mechanism in self._mechanisms.values():
            add_mechanism(slot, mechanism)

    def _known(self, family: str) -> None:
        if not exists(family) and family not in self._families:
            raise ValueError(f"there is no operator family {family!r} to define")

    def _mechanism(self, slot: str, mechanism: Mechanism) -> None:
        stem = _checked(mechanism, Mechanism).stem
        if stem in MECHANISMS or stem in self._mechanisms:
            raise ValueError(f"the mechanism {stem!r} exists already")
        self._mechanisms[stem] = slot, mechanism


def _checked(value: T, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} is needed, not {type(value).__name__}")
    return value


def load_plugin(folder: Path | None) -> None:
    """Register the plugin in `folder`, or the installed one of that name, once a process.
    Day0Error when there is none with `register`, or it registers what cannot be; a mistake inside
    its own code keeps its traceback."""
    if folder is None or folder.resolve() in _loaded:
        return
    path = folder / FILE
    register = getattr(_imported(path), "register", None) if path.is_file() else _installed(folder)
    if not callable(register):
        raise Day0Error(f"{path} defines no function register(registry)", hint=_HINT)
    registry = Registry()
    try:
        register(registry)
    except (ValueError, TypeError) as error:
        raise Day0Error(f"{path} cannot be registered: {error}", hint=_HINT) from error
    registry.commit()
    _loaded.add(folder.resolve())


def _installed(name: Path) -> Callable[[Registry], None]:
    """What the entry point of that name in the group GROUP points to."""
    found = entry_points(group=GROUP)
    for entry in found:
        if entry.name == str(name):
            return entry.load()
    names = ", ".join(sorted({entry.name for entry in found})) or "none"
    raise Day0Error(
        f"--plugin {name} has no {FILE}, and is no installed plugin (there are: {names})",
        hint=_HINT,
    )


def _imported(path: Path) -> ModuleType:
    """plugin.py under a name of its own, findable for whoever imports an entry by name. Modules
    beside it can be imported, after everything that is installed."""
    name = f"day0_plugin_{len(_loaded)}"
    spec = spec_from_file_location(name, path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError) as error:
        raise Day0Error(f"{path} cannot be imported: {error}", hint=_HINT) from error
    return module
