"""Where the data files lie: inside the package in a wheel, beside it in a checkout."""

from pathlib import Path

FOLDERS = ("checklists", "templates")


def folder(name: str) -> Path:
    """Return the data folder `name`, one of `FOLDERS`.

    Raises ValueError for another name, and FileNotFoundError where an install lost its data.
    """
    if name not in FOLDERS:
        raise ValueError(f"no data folder {name!r}; there are {', '.join(FOLDERS)}")
    package = Path(__file__).resolve().parent
    places = (package / "_data" / name, package.parent / name)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"{name} is in neither {places[0]} nor {places[1]}: reinstall day0")
