"""The files of the checkout, and the complaints about a single file's text."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 400

SKIPPED = {"build", "dist", "node_modules", "shared", "__pycache__"}

# Written in pieces, so that this file passes its own test.
PATTERNS = (
    (r"(?<![\w.~])/(?:work|root)" + r"/\w", "a path of one machine"),
    (r"(?<![\w.~])/(?:home|Users)" + r"/\w", "a path of one user"),
    (r"/opt/(?:wheels|pypi)" + r"\b", "a path of one machine"),
    (r"\b(?:files\.)?pytho" + r"nhosted\.org|\bpy" + r"pi\.org", "a registry's host name"),
    (r"\bregistry\.(?:npm" + r"js|yarnpkg)\.", "a registry's host name"),
    (r"\b(?:deb|security)\.deb" + r"ian\.org", "a registry's host name"),
    (r"\bdownload\.pyto" + r"rch\.org", "a registry's host name"),
    (r"\bmake_block_" + r"ptr\b|\btl\.adv" + r"ance\b", "block pointers, gone from Triton"),
    (r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b(?!.*https?://)", "a TO" + "DO without a link"),
)


def files(root: Path = ROOT) -> tuple[Path, ...]:
    """Relative paths of the files that are committed or could be, sorted.

    Asks git; where the tree is a bare copy, everything outside hidden folders and build outputs.
    """
    if (root / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=False,
        )
        if listing.returncode == 0:
            found = {Path(name) for name in listing.stdout.decode().split("\0") if name}
            return tuple(sorted(path for path in found if (root / path).is_file()))
    return tuple(
        sorted(
            path.relative_to(root)
            for path in root.rglob("*")
            if path.is_file()
            and not any(
                part in SKIPPED or part.startswith(".") for part in path.relative_to(root).parts
            )
        )
    )


def text(path: Path) -> str | None:
    """The text of a file, None for a binary one."""
    data = (ROOT / path).read_bytes()
    return None if b"\0" in data[:8192] else data.decode(errors="replace")


def complaints(path: Path, content: str) -> list[str]:
    """What must not stand in a committed file: its length, paths and hosts of one machine."""
    found = []
    lines = content.splitlines()
    if path.suffix == ".py" and len(lines) > MAX_LINES:
        found.append(f"{path}: {len(lines)} lines, the ceiling is {MAX_LINES}")
    for number, line in enumerate(lines, start=1):
        for pattern, name in PATTERNS:
            if re.search(pattern, line):
                found.append(f"{path}:{number}: {name}: {line.strip()[:80]}")
    return found
