"""A progress bar on stderr while headers are fetched; silent where stderr is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


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
