"""make catalog: writes day0/catalog/entries from a folder of published config.json files, and the
features by which `nearest` compares them.

    python -m day0.catalog CORPUS

CORPUS holds manifest.tsv and configs/. Only our own reading of a config is written, and only of
models whose every layer is understood.
"""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

from day0.catalog import features
from day0.catalog.entry import FOLDER, CatalogEntry, dump, entry_name
from day0.checkpoint.config import parse_config
from day0.errors import Day0Error
from day0.models import decoder, words
from day0.models.known.harmless import HARMLESS

UNFIT = ("adapted", "partial", "normalised")


def main(corpus: Path) -> None:
    """Write every entry, or say why a model has none."""
    FOLDER.mkdir(exist_ok=True)
    written, compared = set(), {}
    with (corpus / "manifest.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for row in rows:
        name = entry_name(row["model_id"])
        try:
            entry = read(corpus / "configs" / row["file"], row["model_id"])
        except Day0Error as error:
            print(f"- {name}: {error.message}", file=sys.stderr)
            continue
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(dump(entry), separators=(",", ":")) + "\n", encoding="utf-8")
        written.add(path)
        compared[name] = (entry.id, features.features(entry.spec))
    for path in FOLDER.glob("*.json"):
        if path not in written:
            path.unlink()
    features.INDEX.write_text(features.dump(compared), encoding="utf-8")
    print(f"{len(written)} entries")


def read(path: Path, hub_id: str) -> CatalogEntry:
    """The entry of one config; Day0Error where a layer is not understood."""
    config, _ = parse_config(path.read_bytes(), str(path.parent), path.name)
    cfg = words.reader(config)
    reading = decoder.read(cfg, None, None)
    unknown = [
        index
        for index, layer in enumerate(reading.spec.layers)
        if any(part.stem == "unknown" for sub in layer.sublayers for part in sub.branches)
    ]
    if unknown:
        raise Day0Error(f"layers {unknown[:4]} are not understood")
    return CatalogEntry(
        name=entry_name(hub_id),
        id=hub_id,
        revision="",
        spec=replace(reading.spec, name=hub_id),
        facts=tuple(cfg.facts.values()),
        unread_keys=cfg.unread(HARMLESS),
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m day0.catalog CORPUS")
    main(Path(sys.argv[1]))
