"""Which modules a quantisation list names: words, globs and regexes, matched by path components."""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

from day0.errors import Day0Error

# Packages around the decoder that configurations and checkpoints write or leave out at will.
WRAPPERS = ("model", "language_model", "text_model", "backbone", "transformer")
# Last components of a tensor name that are no module.
PARAMETERS = frozenset(
    "weight bias weight_packed weight_scale weight_scale_inv weight_scale_2 weight_global_scale "
    "weight_shape weight_zero_point weight_g_idx input_scale input_global_scale scale scales "
    "qweight qzeros g_idx qscale_weight qscale_act".split()
)


def module_of(tensor: str) -> str:
    """The module that owns a tensor: "model.norm" of "model.norm.weight"; fused experts are stored
    without a last component and stay as they are."""
    module, dot, last = tensor.rpartition(".")
    return module if dot and last in PARAMETERS else tensor


def unwrapped(path: str) -> str:
    """`path` without the wrappers in front: "layers.0" of "model.language_model.layers.0"."""
    while True:
        first, dot, rest = path.partition(".")
        if not dot or first not in WRAPPERS:
            return path
        path = rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """A parsed list of module patterns. Build with `parse`.

    A plain entry names whole components ("gate" is no "gate_up_proj"): anywhere in a path when it
    is relative, from the start when it names a layer number or a wrapper, wrappers apart on both
    sides. "*" globs run over dots and cover what lies below a match. "re:" entries are matched from
    the start of the path as compressed-tensors does (utils/match.py).
    """

    entries: tuple[str, ...] = ()
    relative: frozenset[str] = frozenset()
    anchored: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    expressions: tuple[re.Pattern[str], ...] = ()

    def match(self, module: str) -> bool:
        """Whether a module, or a module above it, is named."""
        if not self.entries:
            return False
        bare = unwrapped(module)
        if self.prefixes and (module.startswith(self.prefixes) or bare.startswith(self.prefixes)):
            return True
        if self.anchored and any(head in self.anchored for head in _heads(bare)):
            return True
        if self.relative and any(run in self.relative for run in _runs(module)):
            return True
        # Some ignore lists name the inner module of a wrapper class: "...q_proj.linear".
        paths = dict.fromkeys((module, bare, f"{module}.linear"))
        return any(expression.match(path) for expression in self.expressions for path in paths)


def parse(entries: Iterable[str]) -> Patterns:
    """Patterns of a list; Day0Error names an entry that is no valid regex."""
    kept = tuple(entries)
    relative, anchored = set[str](), set[str]()
    prefixes, expressions = list[str](), list[re.Pattern[str]]()
    for entry in kept:
        if entry.startswith("re:"):
            try:
                expressions.append(re.compile(entry.removeprefix("re:")))
            except re.error as error:
                raise Day0Error(
                    f"{entry!r} in a quantisation list is no regular expression: {error}",
                    hint="correct the entry in config.json or hf_quant_config.json",
                ) from error
        elif "*" in entry or "?" in entry:
            stem = entry.removesuffix("*")
            if stem and not any(sign in stem for sign in "*?["):
                prefixes += (stem, unwrapped(stem))
            else:
                forms = (fnmatch.translate(form) for form in (entry, f"{entry}.*"))
                expressions.append(re.compile("|".join(forms)))
        else:
            word = entry.removesuffix(".linear").removesuffix(".weight")
            bare = unwrapped(word)
            numbered = any(part.isdigit() for part in bare.split("."))
            (anchored if numbered or bare != word else relative).add(bare)
    return Patterns(
        entries=kept,
        relative=frozenset(relative),
        anchored=frozenset(anchored),
        prefixes=tuple(dict.fromkeys(prefix for prefix in prefixes if prefix)),
        expressions=tuple(expressions),
    )


def _heads(path: str) -> Iterable[str]:
    """The path and every module above it."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _runs(path: str) -> Iterable[str]:
    """Every run of neighbouring components."""
    parts = path.split(".")
    for start in range(len(parts)):
        for stop in range(start + 1, len(parts) + 1):
            yield ".".join(parts[start:stop])


# Routed experts, of any spelling; "shared_experts" is another component.
EXPERTS = parse(("experts",))
