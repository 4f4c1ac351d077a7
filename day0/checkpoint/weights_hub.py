"""One commit's files in a cache of huggingface_hub. Imported only for a hub id."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from huggingface_hub import constants, hf_hub_download

from day0 import __version__
from day0.checkpoint import hub_range
from day0.checkpoint.header_cache import HeaderCache, unwritable
from day0.checkpoint.hub_errors import HubError, offline, translate
from day0.checkpoint.weights import Size, Stopped


class Commit:
    """The commit `revision` of `repo`. `own`: the cache to use, None: huggingface_hub's.
    `headers`: the root of our header cache."""

    def __init__(self, repo: str, revision: str, own: Path | None, headers: Path) -> None:
        self.repo = repo
        self.revision = revision
        self.root = own or Path(constants.HF_HUB_CACHE)
        self._caches = dict.fromkeys((self.root, Path(constants.HF_HUB_CACHE)))
        self._headers = HeaderCache(headers, repo)

    @property
    def offline(self) -> bool:
        """Whether the user forbids to ask the hub."""
        return constants.is_offline_mode()

    @property
    def folder(self) -> Path:
        """Where downloads of this commit lie."""
        return self._snapshot(self.root)

    def place(self, name: str) -> Path:
        """Where a file lies once it is here."""
        return self.folder / name

    def header_bytes(self, shard: str) -> int | None:
        """The length of a shard's header, None when it is not cached."""
        header = self._headers.header(self.revision, shard)
        return None if header is None else len(header.raw)

    def folder_with(self, sizes: dict[str, Size]) -> Path | None:
        """The folder that has all shards already."""
        for cache in self._caches:
            folder = self._snapshot(cache)
            if all(size.fits(folder / name) for name, size in sizes.items()):
                return folder
        return None

    def small(self, name: str, folder: Path) -> None:
        """Fetch a small file into the shards' cache where the commit has it; a file that the hub
        will not give now is left out."""
        names = self._headers.names(self.revision)
        if names is None or name not in names or (folder / name).is_file():
            return
        root = next(cache for cache in self._caches if self._snapshot(cache) == folder)
        try:
            self.download(name, lambda count: None, root=root)
        except HubError as error:
            if error.reason not in ("offline", "unreachable", "refused"):
                raise

    def download(
        self,
        name: str,
        watch: Callable[[int], None],
        *,
        again: bool = False,
        root: Path | None = None,
    ) -> None:
        """Fetch one file; `again`: although it is there. `watch` hears how many bytes are here.

        Raises HubError, Day0Error for a cache that cannot be written, OSError for a full disk.
        """
        root = root or self.root
        try:
            hf_hub_download(
                self.repo,
                name,
                revision=self.revision,
                cache_dir=root,
                force_download=again,
                library_name="day0",
                library_version=__version__,
                tqdm_class=_bar(watch),
            )
        except Stopped:
            raise
        # hf_xet raises RuntimeError for what it has no word for; a file of more than 50 GB
        # without hf_xet is a ValueError.
        except (RuntimeError, ValueError, *hub_range.TRANSPORT_ERRORS) as error:
            where = f"{self.repo}/{name}"
            if self.offline:
                raise offline(where) from error
            if isinstance(error, OSError) and error.errno is not None:
                if _full(error):
                    raise
                raise unwritable(root, error) from error
            raise translate(error, where, self.revision) from error

    def _snapshot(self, cache: Path) -> Path:
        return cache / f"models--{self.repo.replace('/', '--')}" / "snapshots" / self.revision


def _full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _bar(watch: Callable[[int], None]) -> Any:
    """A stand-in for tqdm that draws nothing and tells `watch`."""

    class Bar:
        def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
            self.n = initial

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def update(self, count: float | None = 1) -> None:
            self.n += int(count or 0)
            watch(self.n)

        def __getattr__(self, name: str) -> Callable[..., None]:
            # set_description, refresh, close, ...: nothing is drawn
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *_, **__: None

    return Bar
