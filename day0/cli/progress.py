"""Progress bars on stderr while something is fetched; silent where stderr is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TransferSpeedColumn,
)


@contextmanager
def header_progress(console: Console) -> Iterator[Callable[[int, int, str], None] | None]:
    """Yields a callback (shards done, shards in all, name), or None where nobody watches."""
    if not console.is_terminal:
        yield None
        return
    columns = TextColumn("headers"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("headers", total=None)
        yield lambda done, total, shard: bar.update(task, completed=done, total=total)


@contextmanager
def weights_progress(console: Console) -> Iterator[Callable[[int, int, str], None] | None]:
    """Yields a callback (bytes here, bytes in all, shard); None where nobody watches. The bar
    shows with the first byte: what is on the disk already needs none."""
    if not console.is_terminal:
        yield None
        return
    columns = TextColumn("weights"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("weights", total=None, visible=False)
        yield lambda here, total, shard: bar.update(task, completed=here, total=total, visible=True)


@contextmanager
def steps_progress(console: Console) -> Iterator[Callable[[int, int, str], None] | None]:
    """Yields a callback (steps done, steps in all, the next one); None where nobody watches."""
    if not console.is_terminal:
        yield None
        return
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total, description=name
        )
