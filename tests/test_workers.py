"""Workers that die: what it costs, what is said, and that progress counts what is done and nothing else."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builder import progress, sight
from builder.engines import tell
from builder.errors import NotFound, WorkerDied
from builder.progress import Progress
from builder.workers import Crew, Local


class Awkward(Exception):
    """An exception that can't be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def work(number: int, marks: str, how: str) -> int:
    """Twice the number; task 2 fails as asked, where `once` only the first time."""
    tell((1, 0))
    kind, _, once = how.partition(" ")
    mark = Path(marks) / "tried"
    if number == 2 and not (once and mark.exists()):
        mark.touch()
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "137":
            os._exit(137)
        if kind == "memory":
            raise MemoryError
        if kind == "awkward":
            raise Awkward(1, 2)
    return 2 * number


def no_start() -> None:
    """A worker that ends before it takes a task."""
    os._exit(3)


def done_by(crew: Crew, tmp_path: Path, how: str, told: Any = lambda *_: None) -> dict[int, int]:
    """Results of six tasks by number."""
    return dict(crew.run(work, [(number, str(tmp_path), how) for number in range(6)], told, [f"pitch/{n}" for n in range(6)]))


@pytest.mark.parametrize("how", ["killed once", "137 once", "memory once"])
def test_a_worker_that_dies_costs_its_task_only(tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed, ended with 137 or out of memory once: the task is named and done again by another worker, no other is done twice."""
    told: list[tuple[int, Any]] = []
    with closing(Crew(2)) as crew:
        assert done_by(crew, tmp_path, how, lambda *heard: told.append(heard)) == {number: 2 * number for number in range(6)}
    assert [task for task, value in told if value is None] == [2]
    assert sorted(task for task, value in told if value) == [0, 1, 2, 2, 3, 4, 5]
    assert "pitch/2: its worker process ended" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "137"])
def test_a_task_that_ends_its_workers_is_named(tmp_path: Path, how: str) -> None:
    """Twice dead over one task: all others are done, then the error names it, how it ended, and what to do."""
    found: dict[int, int] = {}
    with closing(Crew(2)) as crew:
        run = crew.run(work, [(number, str(tmp_path), how) for number in range(6)], names=[f"pitch/{number}" for number in range(6)])
        found.update(next(run) for _ in range(5))
        with pytest.raises(WorkerDied, match=r"1 of 6 couldn't be done(?s:.*)fewer WORKERS(?s:.*)pitch/2") as raised:
            next(run)
    assert found == {number: 2 * number for number in (0, 1, 3, 4, 5)}
    assert "ended twice, killed, most often for want of memory" in str(raised.value)


def test_an_error_that_cannot_travel_is_told_as_text(tmp_path: Path) -> None:
    """An exception that can't be unpickled doesn't end its worker: its name and text arrive."""
    with closing(Crew(1)) as crew, pytest.raises(RuntimeError, match="Awkward: 1 and 2"):
        done_by(crew, tmp_path, "awkward")


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_run() -> None:
    """Not the tasks' fault, and not tried for ever."""
    with closing(Crew(2, no_start)) as crew, pytest.raises(WorkerDied, match=r"before they take a task: .* with exit status 3"):
        list(crew.run(work, [(1, "", "")]))


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_worker_that_begins_with_an_error_of_ours_says_it(tmp_path: Path, n_workers: int) -> None:
    """What its beginning raises arrives as it is: here, that it sees another folder than its parent."""
    with sight.shown(tmp_path) as mark:
        other = tmp_path / "other"
        with (
            pytest.raises(NotFound, match=r"the output folder \S+other isn't there"),
            Local(n_workers).each(start=sight.check_shown, arguments=(other, mark)) as each,
        ):
            list(each(abs, [-1]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_map_over_workers_is_in_order_and_heard(tmp_path: Path, n_workers: int) -> None:
    """As the builtin, twice on the same workers, with everything told; outside, nobody listens."""
    told: list[Any] = []
    with Local(n_workers).each(lambda task, value: told.append(value)) as each:
        for _ in range(2):
            assert list(each(work, range(5), [str(tmp_path)] * 5, ["" for _ in range(5)])) == [0, 2, 4, 6, 8]
    assert told == [(1, 0)] * 10
    tell("nobody")
    assert len(told) == 10


def test_progress_is_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips done, rejected, rate and time left, over all tasks; a task that begins again counts for nothing."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    shown = Progress("build", 40, lambda line: None)
    shown._bar = None
    assert shown.line() == "build    0/40 clips, 0.0 clips/s, time left unknown"
    now[0] = 110.0
    shown.told("a", (8, 0))
    shown.told("b", (2, 4))
    assert shown.line() == "build    10/40 clips, 4 rejected, 1.0 clips/s, 30 s left"
    shown.told("a", None)
    assert shown.line() == "build    2/40 clips, 4 rejected, 0.2 clips/s, 190 s left"
    shown.told("a", (38, 0))
    assert shown.line() == "build    40/40 clips, 4 rejected, 4.0 clips/s, 10 s"


def test_progress_is_told_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines come now and then though nothing is counted, and one at the end, also of a stage that fails."""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    said: list[str] = []

    def fails() -> None:
        with Progress("audit", 3, said.append) as shown:
            while len(said) < 3:
                time.sleep(0.01)
            shown.add(0, 2)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fails()
    assert said[-1].startswith("audit    2/3 clips")


def test_a_worker_in_the_middle_of_a_task_is_ended_with_its_run(tmp_path: Path) -> None:
    """Who stops listening ends what was begun; an idle worker is used again."""
    with closing(Crew(1)) as crew:
        run = crew.run(work, [(number, str(tmp_path), "") for number in range(3)])
        next(run)
        run.close()
        assert done_by(crew, tmp_path, "")[5] == 10
        (idle,) = crew._idle
        assert idle.process.is_alive()
    assert not idle.process.is_alive()
