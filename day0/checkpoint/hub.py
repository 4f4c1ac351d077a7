"""A checkpoint on a hub: the small files, and headers by range requests. Never weights.

Imported only when a hub id is used, because huggingface_hub is slow to import.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from huggingface_hub import (
    HfApi,
    constants,
    hf_hub_download,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import (
    are_progress_bars_disabled,
    build_hf_headers,
    disable_progress_bars,
    enable_progress_bars,
)

from day0 import __version__
from day0.checkpoint import hub_range
from day0.checkpoint.folder import read_whole
from day0.checkpoint.header_cache import HeaderCache, unwritable
from day0.checkpoint.hub_errors import HubError, absent, not_a_hub, translate
from day0.checkpoint.safetensors_header import RawHeader, read_header
from day0.checkpoint.shards import Files
from day0.checkpoint.source import Checkpoint
from day0.ir.fact import Finding

THREADS = 8
_COMMIT = re.compile(r"[0-9a-f]{40}")
T = TypeVar("T")


def load_hub(
    repo: str, revision: str | None, cache_dir: Path, assemble: Callable[[Files], Checkpoint]
) -> Checkpoint:
    """Read `repo` at `revision` (None: the default branch); `assemble` turns files to a Checkpoint.

    A commit that is cached whole is read without the network. Otherwise the hub is asked; where
    it is offline, unreachable or refuses, the cache serves and a finding says so. A failure is
    never remembered. Raises HubError, and Day0Error for what is wrong with the files.
    """
    cache = HeaderCache(cache_dir, repo)
    wanted = revision or constants.DEFAULT_REVISION
    try:
        return _online(repo, wanted, cache, assemble)
    except HubError as error:
        if error.reason not in ("offline", "unreachable", "refused"):
            raise
        cached = _from_cache(repo, wanted, cache, assemble, error)
        if cached is None:
            raise
        return cached


def _online(
    repo: str, revision: str, cache: HeaderCache, assemble: Callable[[Files], Checkpoint]
) -> Checkpoint:
    names = cache.names(revision) if _COMMIT.fullmatch(revision) else None
    if names is not None:
        commit = revision
    else:
        commit, names = _listing(repo, revision)
        cache.save_names(commit, names)
    checkpoint = assemble(HubFiles(repo, commit, names, cache))
    cache.save_commit(revision, commit)
    return replace(checkpoint, revision=commit, origin="hub")


def _listing(repo: str, revision: str) -> tuple[str, frozenset[str]]:
    """The commit that `revision` stands for, and the names of its files."""
    _check_endpoint(repo)
    api = HfApi(library_name="day0", library_version=__version__)
    try:
        info = _retried(
            lambda: api.model_info(
                repo, revision=revision, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
            )
        )
    except (HFValidationError, *hub_range.TRANSPORT_ERRORS) as error:
        raise translate(error, repo, revision) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # An answer that is no JSON or has other fields: a captive portal, a plain web server.
        raise not_a_hub(repo) from error
    if not info.sha or not _COMMIT.fullmatch(info.sha):
        raise not_a_hub(repo)
    return info.sha, frozenset(sibling.rfilename for sibling in info.siblings or ())


def _check_endpoint(repo: str) -> None:
    """Refuse an HF_ENDPOINT that is no address: the HTTP library has an error class for some."""
    try:
        parts = urlsplit(constants.ENDPOINT)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise not_a_hub(repo)


def _retried(call: Callable[[], T]) -> T:
    """Call again after a passing error, as fetch_header does."""
    pause = hub_range.FIRST_PAUSE
    for _ in range(hub_range.ATTEMPTS - 1):
        try:
            return call()
        except hub_range.TRANSPORT_ERRORS as error:
            if not hub_range.passing(error):
                raise
            time.sleep(min(hub_range.retry_after(error) or pause, hub_range.LONGEST_PAUSE))
            pause *= 2
    return call()


class HubFiles:
    """The files of one commit: from the caches where they are, else from the hub.

    `trouble`: why the hub is not asked.
    """

    advice = "run once with the hub in reach: the headers of all shards are then cached"

    def __init__(
        self,
        repo: str,
        commit: str,
        names: frozenset[str],
        cache: HeaderCache,
        trouble: HubError | None = None,
    ) -> None:
        self.repo = repo
        self.commit = commit
        self.cache = cache
        self.trouble = trouble
        self._names = names

    def names(self) -> frozenset[str]:
        """All files of the commit."""
        return self._names

    def where(self, name: str) -> str:
        """The file as a user knows it."""
        return f"{self.repo}/{name}"

    def small(self, name: str) -> bytes:
        """Read a small file; HubError when it can be had nowhere."""
        path = self._local(name)
        if path is None and self.trouble:
            raise absent(self.where(name), self.trouble)
        return read_whole(path or self._download(name))

    def headers(self, names: Iterable[str]) -> Iterator[tuple[str, RawHeader]]:
        """Headers of shards as they arrive; those at hand first."""
        missing: list[str] = []
        for name in names:
            header = self.cache.header(self.commit, name)
            if header is None and (path := self._local(name)) is not None:
                header = read_header(path)
            if header is None:
                missing.append(name)
            else:
                yield name, header
        if missing and self.trouble:
            raise absent(f"the header of {self.where(missing[0])}", self.trouble)
        with ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="day0-header") as pool:
            futures = {pool.submit(self._fetch, name): name for name in missing}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _local(self, name: str) -> Path | None:
        """The file in the library's cache or in ours, without asking anybody."""
        for folder in (constants.HF_HUB_CACHE, self.cache.hub):
            found = try_to_load_from_cache(self.repo, name, cache_dir=folder, revision=self.commit)
            if isinstance(found, str):
                return Path(found)
        return None

    def _download(self, name: str) -> Path:
        were_disabled = are_progress_bars_disabled()
        disable_progress_bars()
        try:
            return Path(
                hf_hub_download(
                    self.repo,
                    name,
                    revision=self.commit,
                    cache_dir=self.cache.hub,
                    library_name="day0",
                    library_version=__version__,
                )
            )
        # hf_xet, which serves large files, raises RuntimeError for what it has no word for.
        except (RuntimeError, *hub_range.TRANSPORT_ERRORS) as error:
            if isinstance(error, OSError) and error.errno is not None:
                # An errno comes from the disk: the client's own errors carry none.
                raise unwritable(self.cache.root, error) from error
            raise translate(error, self.where(name), self.commit) from error
        finally:
            if not were_disabled:
                enable_progress_bars()

    def _fetch(self, name: str) -> RawHeader:
        url = hf_hub_url(self.repo, name, revision=self.commit)
        headers = build_hf_headers(library_name="day0", library_version=__version__)
        try:
            header = hub_range.fetch_header(url, headers, self.where(name))
        except hub_range.TRANSPORT_ERRORS as error:
            raise translate(error, self.where(name), self.commit) from error
        self.cache.save_header(self.commit, name, header)
        return header


def _from_cache(
    repo: str,
    revision: str,
    cache: HeaderCache,
    assemble: Callable[[Files], Checkpoint],
    error: HubError,
) -> Checkpoint | None:
    """The checkpoint from the caches with a finding that says why, None when nothing is cached."""
    snapshots = _snapshots(repo)
    commits = [revision] if _COMMIT.fullmatch(revision) else []
    commits += [cache.commit(revision), _library_ref(repo, revision)]
    known = [commit for commit in dict.fromkeys(commits) if _COMMIT.fullmatch(commit)]
    note = ""
    if not known and revision == constants.DEFAULT_REVISION and snapshots:
        if len(snapshots) > 1:
            raise HubError(
                f"{repo}: the cache has no refs/{revision} and {len(snapshots)} snapshots "
                f"({', '.join(sorted(snapshots))}); one must be named",
                hint=f"name the commit: day0 analyze {repo}@{min(snapshots)}",
                reason="not-found",
            ) from error
        known = list(snapshots)
        note = f"; the cache has no refs/{revision}, its only snapshot was taken"
    for commit in known:
        names = cache.names(commit) or snapshots.get(commit)
        if not names:
            continue
        checkpoint = assemble(HubFiles(repo, commit, names, cache, error))
        # By the user's choice or for a fixed commit nothing can be out of date by surprise.
        harmless = not note and (error.reason == "offline" or revision == commit)
        finding = Finding(
            code="cache-used",
            severity="info" if harmless else "warning",
            message=f"{error.cause}: the cached commit {commit[:12]} of {repo} was used{note}",
            evidence=(commit,),
        )
        return replace(
            checkpoint,
            revision=commit,
            origin="hub",
            findings=(*checkpoint.findings, finding),
        )
    return None


def _library_folder(repo: str) -> Path:
    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _library_ref(repo: str, revision: str) -> str:
    """The commit in refs/REVISION of huggingface_hub's cache, or ""."""
    try:
        return (_library_folder(repo) / "refs" / revision).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _snapshots(repo: str) -> dict[str, frozenset[str]]:
    """Commits in huggingface_hub's cache and the files that are really there."""
    found: dict[str, frozenset[str]] = {}
    for folder in (_library_folder(repo) / "snapshots").glob("*"):
        files = (path for path in folder.rglob("*") if path.is_file())
        found[folder.name] = frozenset(path.relative_to(folder).as_posix() for path in files)
    return {commit: names for commit, names in found.items() if names and _COMMIT.fullmatch(commit)}
