"""States on disk: the same text as a cold run, and nothing that is damaged or not this model's."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from day0.checkpoint.load import DEMO
from day0.errors import Day0Error
from day0.runtime.prefix_files import ENDING, read_all, write
from day0.runtime.session import Session
from tests.runtime.speculated import Subject, same
from tests.runtime.test_prefix import again, all_given_back, drawn, kept, one, prefixes
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]


@pytest.fixture(scope="module")
def demo() -> Subject:
    return Subject(DEMO)


@pytest.fixture
def saved(demo: Subject, tmp_path: Path, seed: int) -> Path:
    """A folder with the state of one text."""
    session, prompt = kept(demo), drawn(demo, seed, 90)
    one(session.engine(), prompt)
    (path,) = write(tmp_path / "states", session, [prompt])
    assert path.suffix == ENDING
    assert write(tmp_path / "states", session, [prompt]) == []  # there already
    return path


def resumed(subject: Subject, folder: Path, seed: int, length: int = 90) -> None:
    """Another process goes on from what the folder holds."""
    session = kept(subject)
    (tokens,) = read_all(folder, session)
    engine = session.engine()
    prompt = drawn(subject, seed, length)
    turns = [prompt, (*prompt[:tokens], *drawn(subject, seed + 1, 5)), prompt[: tokens - 3]]
    ours = [one(engine, turn) for turn in turns]
    assert prefixes(engine).counts.saved >= 2 * tokens
    same(subject.plain, ours, again(subject, ours))
    all_given_back(engine)


def test_a_state_from_disk(demo: Subject, saved: Path, seed: int) -> None:
    resumed(demo, saved.parent, seed)


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["kimi_linear", "glm5_next", "qwen3_next", "gpt_oss"])
def test_states_pools_and_windows_from_disk(
    tiny: Tiny, kind: str, tmp_path: Path, seed: int
) -> None:
    subject = Subject(tiny(kind).folder)
    session, prompt = kept(subject), drawn(subject, seed, 90)
    one(session.engine(), prompt)
    write(tmp_path, session, [prompt])
    resumed(subject, tmp_path, seed)


@pytest.mark.parametrize("attempt", range(8))
def test_a_flipped_byte_is_refused(demo: Subject, saved: Path, attempt: int, seed: int) -> None:
    content = bytearray(saved.read_bytes())
    at = random.Random(seed).randrange(len(content))
    content[at] ^= 1 << random.Random(seed).randrange(8)
    saved.write_bytes(content)
    session = kept(demo)
    with pytest.raises(Day0Error) as refused:
        read_all(saved.parent, session)
    assert saved.name in refused.value.message
    assert not list(prefixes(session.engine()).nodes())


def test_half_a_file_is_refused(demo: Subject, saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    with pytest.raises(Day0Error, match="is damaged"):
        read_all(saved.parent, kept(demo))


def other_weights(subject: Subject) -> Session:
    """The same model, one value of one weight aside."""
    session = kept(subject)
    weights = dict(session.weights)
    name = sorted(weights)[0]
    weights[name] = weights[name].clone()
    weights[name].view(-1)[0] += 1
    session._weights = weights
    return session


def test_other_weights_are_refused(demo: Subject, saved: Path) -> None:
    with pytest.raises(Day0Error, match="the weights it was computed with"):
        read_all(saved.parent, other_weights(demo))


def test_a_file_with_drafts_is_refused_without(demo: Subject, saved: Path) -> None:
    session = kept(demo)
    session.follower = session
    with pytest.raises(Day0Error, match="2 with drafts"):
        read_all(saved.parent, session)


def test_what_has_no_room_is_refused(demo: Subject, saved: Path) -> None:
    session = demo.session(0, tokens=32, sequences=1, kept=0, interval=32, prefix_bytes=1 << 40)
    with pytest.raises(Day0Error, match="more than --prefix-cache and --max-context"):
        read_all(saved.parent, session)


def test_a_folder_that_cannot_be_written(demo: Subject, tmp_path: Path, seed: int) -> None:
    (tmp_path / "file").write_text("")
    session, prompt = kept(demo), drawn(demo, seed, 90)
    one(session.engine(), prompt)
    with pytest.raises(Day0Error, match="cannot be written"):
        write(tmp_path / "file" / "states", session, [prompt])


def test_nothing_of_a_folder_that_is_not_there(demo: Subject, tmp_path: Path) -> None:
    assert read_all(tmp_path / "none", kept(demo)) == []
