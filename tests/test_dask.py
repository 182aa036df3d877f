"""Dask: a real scheduler and real workers on loopback give the bytes that processes of this machine give, whatever dies meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import distributed
import pytest
from test_resume import KILLED, contents

from builder import dask_engine, engines, progress, resume, sight
from builder.__main__ import main
from builder.engines import Engine, tell
from builder.errors import ClusterUnusable, NotFound, VocalgradError, WorkerDied

ROOT = Path(__file__).parent.parent
TESTS = Path(__file__).parent


# -- a cluster --------------------------------------------------------------------------------------------------------


def ended(process: subprocess.Popen[Any]) -> None:
    """End a process group: gently, then not."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def dask_process(log: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[Any]]:
    """`dask scheduler` or `dask worker`, in a session of its own."""
    path = os.pathsep.join([str(ROOT), str(TESTS)])
    with log.open("w") as stream:
        started = subprocess.Popen(
            [sys.executable, "-m", "dask", *command],
            stdout=stream,
            stderr=stream,
            cwd=log.parent,
            env={**os.environ, "PYTHONPATH": path, **environment},
            start_new_session=True,
        )
    try:
        yield started
    finally:
        ended(started)


@contextmanager
def scheduler_in(folder: Path) -> Iterator[Path]:
    """A scheduler on loopback; its scheduler file."""
    file = folder / "scheduler.json"
    ports = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file))
    with dask_process(folder / "scheduler.log", "scheduler", *ports):
        yield file


@contextmanager
def worker_of(file: Path, name: str, n_threads: int = 1, *more: str, **environment: str) -> Iterator[subprocess.Popen[Any]]:
    """A worker; dask's nanny starts another process if that of the worker dies."""
    options: tuple[str, ...] = (
        "--host",
        "127.0.0.1",
        "--no-dashboard",
        "--scheduler-file",
        str(file),
        "--name",
        name,
        "--nthreads",
        str(n_threads),
    )
    options += more
    with dask_process(file.parent / f"{name}.log", "worker", *options, **environment) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A scheduler and two workers; its scheduler file."""
    with ExitStack() as stack:
        file = stack.enter_context(scheduler_in(tmp_path_factory.mktemp("cluster")))
        for name in ("one", "two"):
            stack.enter_context(worker_of(file, name))
        both_there(file)
        yield file


def both_there(file: Path) -> None:
    """Wait for two workers."""
    with dask_engine.opened(1, str(file), 60.0) as engine:
        until(lambda: len(engine.workers()) == 2)


@pytest.fixture
def engine(cluster: Path) -> Iterator[Engine]:
    """An engine on the cluster."""
    with engines.opened("dask", 1, str(cluster), 30.0) as found:
        until(lambda: len(found.workers()) == 2)  # type: ignore[attr-defined]
        yield found


def until(holds: Callable[[], Any], within_s: float = 60.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- work -------------------------------------------------------------------------------------------------------------


def work(number: int, marks: str, how: str) -> int:
    """Twice the number; task 2 ends its worker, where `once` only the first time, or fails."""
    tell((1, 0))
    kind, _, once = how.partition(" ")
    if number == 2 and not (once and (Path(marks) / "tried").exists()):
        (Path(marks) / "tried").touch()
        time.sleep(0.2)
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "memory":
            raise MemoryError
        if kind == "error":
            raise NotFound("nothing there")
    return 2 * number


def wait_for_ever(number: int, marks: str) -> None:
    """Tell until nobody listens; leaves a mark when it ends."""
    try:
        while True:
            (Path(marks) / f"at work {number}").touch()
            tell((0,))
            time.sleep(0.05)
    finally:
        (Path(marks) / f"ended {number}").touch()


_begun: list[int] = []


def begin(value: int) -> None:
    """Count in this process how often a team began."""
    _begun.append(value)


def beginnings(_: int) -> tuple[int, int]:
    """This process, and how often a team began in it."""
    time.sleep(0.05)
    return os.getpid(), len(_begun)


def test_a_map_over_dask_is_in_order_and_heard(engine: Engine, tmp_path: Path) -> None:
    """As the builtin, twice on the same team, with everything told."""
    told: list[Any] = []
    with engine.each(lambda task, value: told.append((task, value))) as each:
        for _ in range(2):
            assert list(each(work, range(5), [str(tmp_path)] * 5, ["" for _ in range(5)])) == [0, 2, 4, 6, 8]
    assert sorted(told) == [(task, (1, 0)) for task in range(5) for _ in range(2)]


def test_a_team_begins_once_in_each_worker(engine: Engine) -> None:
    """Large arguments arrive once, not with every task."""
    with closing(engine.team(begin, (7,))) as team:
        found = [result for _, result in team.run(beginnings, [(number,) for number in range(12)])]
    assert len({pid for pid, _ in found}) == 2
    assert {count for _, count in found} == {1}


def test_an_error_of_ours_comes_back_as_itself(engine: Engine, tmp_path: Path) -> None:
    """With its type and message, at once; the cluster serves the next."""
    with closing(engine.team()) as team, pytest.raises(NotFound, match=r"^nothing there$"):
        list(team.run(work, [(number, str(tmp_path), "error") for number in range(6)]))
    with engine.each() as each:
        assert list(each(abs, [-1, -2])) == [1, 2]


@pytest.mark.parametrize("how", ["memory once", "killed once"])
def test_a_dask_worker_that_dies_costs_its_task_only(engine: Engine, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed or out of memory in a task: what it told is taken back, it's done again and named, and nothing else is missing."""
    told: list[tuple[int, Any]] = []
    with closing(engine.team()) as team:
        tasks = [(number, str(tmp_path), how) for number in range(6)]
        found = dict(team.run(work, tasks, lambda *heard: told.append(heard), [f"pitch/{number}" for number in range(6)]))
    assert found == {number: 2 * number for number in range(6)}
    assert [task for task, value in told if value is None] == [2]
    assert told.index((2, None)) < len(told) - 1 - told[::-1].index((2, (1, 0)))
    assert "pitch/2: its worker ended or was lost; it's done once more by another" in capsys.readouterr().err


@pytest.mark.slow
def test_a_task_that_ends_two_dask_workers_is_named(engine: Engine, tmp_path: Path) -> None:
    """All others are done first; then the error names it and what to do, though dask itself would try it twice more."""
    found: dict[int, int] = {}
    with closing(engine.team()) as team:
        tasks = [(number, str(tmp_path), "killed") for number in range(6)]
        run = team.run(work, tasks, names=[f"pitch/{number}" for number in range(6)])
        found.update(next(run) for _ in range(5))
        with pytest.raises(WorkerDied, match=r"1 of 6 couldn't be done(?s:.*)run the same command again(?s:.*)pitch/2: .* ended twice"):
            next(run)
    assert found == {number: 2 * number for number in (0, 1, 3, 4, 5)}


@pytest.mark.slow
def test_who_stops_listening_ends_what_was_begun(engine: Engine, tmp_path: Path) -> None:
    """Tasks in the middle end when they next tell, those that wait are never begun, and the workers are free."""
    with closing(engine.team()) as team:
        run = team.run(wait_for_ever, [(number, str(tmp_path)) for number in range(4)], lambda *_: None)
        with pytest.raises(ZeroDivisionError):
            stopped_when(run, lambda: len(list(tmp_path.glob("at work *"))) == 2)
        until(lambda: len(list(tmp_path.glob("ended *"))) == 2, 10.0)
    with engine.each() as each:
        assert list(each(abs, [-1, -2])) == [1, 2]
    assert len(list(tmp_path.glob("at work *"))) == 2


def stopped_when(run: Any, holds: Callable[[], bool]) -> None:
    """Raise in the middle of a run, as Ctrl-C does."""

    def stop(*_: Any) -> None:
        raise ZeroDivisionError

    before = signal.signal(signal.SIGALRM, lambda *_: stop() if holds() else None)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        next(run)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        run.close()


# -- who may work -----------------------------------------------------------------------------------------------------


def test_a_worker_with_other_versions_is_refused(cluster: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any work; each is named, with both versions; other code of the same version too."""
    mine = dask_engine.credentials()
    monkeypatch.setattr(dask_engine, "credentials", lambda: {**mine, "numpy": "1.0"})
    with (
        pytest.raises(
            ClusterUnusable, match=rf"worker one at tcp://\S+ has numpy {mine['numpy']}, this process has 1.0\n +worker two"
        ) as raised,
        dask_engine.opened(1, str(cluster), 30.0),
    ):
        pass
    assert "code" not in str(raised.value)
    monkeypatch.setattr(dask_engine, "credentials", lambda: {**mine, "code": "0" * 64})
    with pytest.raises(ClusterUnusable, match=r"worker two at .* has other code of vocalgrad"), dask_engine.opened(1, str(cluster), 30.0):
        pass


@pytest.mark.slow
def test_a_worker_that_joins_later_is_checked(cluster: Path, engine: Engine) -> None:
    """One with two threads takes no task of a team that's at work, and none begins where it's there: the message says `--nthreads 1`."""
    with worker_of(cluster, "wide", 2), closing(engine.team()) as team:
        until(lambda: len(engine.workers()) == 3)  # type: ignore[attr-defined]
        with pytest.raises(ClusterUnusable, match=r"worker wide at tcp.* has 2 threads, .*--nthreads 1"):
            list(team.run(beginnings, [(number,) for number in range(40)]))
        with (
            pytest.raises(ClusterUnusable, match=r"nothing was begun:\n +worker wide .*--nthreads 1"),
            dask_engine.opened(1, str(cluster), 9.0),
        ):
            pass
    until(lambda: len(engine.workers()) == 2)  # type: ignore[attr-defined]


def pools(*_: int) -> set[int]:
    """Threads of each of this worker's numerical libraries."""
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info()}


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() == 1, reason="on one core, libraries have one thread anyway")
def test_libraries_of_a_dask_worker_have_one_thread(tmp_path: Path) -> None:
    """Whatever its environment said when it loaded them."""
    wide = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    with scheduler_in(tmp_path) as file, worker_of(file, "wide", 1, "--preload", "numpy", **wide):
        until(file.exists)
        with closing(distributed.Client(scheduler_file=str(file), set_as_default=False)) as client:
            client.wait_for_workers(1)
            assert set().union(*client.run(pools).values()) == {2}
        with dask_engine.opened(1, str(file), 60.0) as engine, engine.each() as each:
            assert list(each(pools, [0])) == [{1}]


def test_a_cluster_that_cannot_be_used_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No scheduler file, nobody at the address, no worker: each within its time, with what to do, and no traceback."""
    asked = ["plan", "--recipe", str(ROOT / "recipes" / "beep.yaml"), "--engine", "dask", "--wait", "1", "--scheduler"]
    assert main([*asked, str(tmp_path / "nix.json")]) == 1
    assert re.search(r"neither an address .* nor, within 1 s, a scheduler file .*dask scheduler --scheduler-file", capsys.readouterr().err)
    assert main([*asked, "tcp://127.0.0.1:1"]) == 1
    assert re.search(r"no dask scheduler answers at tcp://127.0.0.1:1 within 1 s", capsys.readouterr().err)
    for address in ("tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:x", "ftp://127.0.0.1:1", "tcp://", "tcp://[::1"):
        assert main([*asked, address]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"vocalgrad plan: {address} isn't an address of a dask scheduler (")
        assert said.endswith("): give its host and port, such as tcp://host:8786, or its scheduler file\n")
    with scheduler_in(tmp_path) as file:
        until(file.exists)
        assert main([*asked, str(file)]) == 1
    said = capsys.readouterr().err
    assert re.search(r"it has no workers; waiting for 1 s\n", said)
    assert re.search(r"it has no workers, for 1 s: start some with `dask worker tcp://127.0.0.1:\d+ --nthreads 1`", said)
    assert "Traceback" not in said


def test_a_scheduler_is_for_dask(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage, and the message says what's missing."""
    with pytest.raises(SystemExit) as left:
        main(["build", "--scheduler", "tcp://host:8786"])
    assert left.value.code == 2
    assert "--scheduler tcp://host:8786 is for --engine dask" in capsys.readouterr().err


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever never installed dask learns its name."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(VocalgradError, match=r"pip install 'vocalgrad\[dask\]'"), engines.opened("dask", 1):
        pass


# -- builds -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_build_on_dask_has_the_same_bytes(
    cluster: Path, audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, with its audit: every file is the local build's; and a log without a terminal is told how far each stage is."""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.05)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    out = tmp_path / "ds"
    on_dask = ("--engine", "dask", "--scheduler", str(cluster))
    assert main(["build", "--recipe", str(audited.parent / "noise.yaml"), "--out", str(out), *on_dask]) == 0
    said = capsys.readouterr().out
    assert contents(out) == contents(audited)
    assert (out / "audit" / "audit.json").read_bytes() == (audited / "audit" / "audit.json").read_bytes()
    assert re.search(r"\d workers of dask at tcp://127.0.0.1:", said)
    lines = re.findall(r"^build    (\d+)/9 clips, \d+ rejected, [\d.]+ clips/s, (?:\d+ s left|time left unknown|\d+ s)$", said, re.M)
    assert lines[-1] == "9"
    assert re.search(r"^validate 9/9 clips, [\d.]+ clips/s, \d+ s$", said, re.M)
    assert re.search(r"^again    9/9 clips, ", said, re.M)
    assert re.search(r"^audit    8/8 clips, ", said, re.M)


def test_a_worker_that_sees_another_folder_says_so(engine: Engine, audited: Path, tmp_path: Path) -> None:
    """The folder on the worker's machine isn't the parent's: a clear error that names it, not a fault of the dataset."""
    seen = sight.stamp(audited)
    with pytest.raises(NotFound, match=r"worker on .*: the dataset .* isn't there as its parent sees it"):
        begun_with(engine, sight.check_same, tmp_path, seen)
    with sight.shown(tmp_path) as mark:
        begun_with(engine, sight.check_shown, tmp_path, mark)
        with pytest.raises(NotFound, match=r"the output folder \S+other isn't there .*same path"):
            begun_with(engine, sight.check_shown, tmp_path / "other", mark)
    assert list(tmp_path.iterdir()) == []


def begun_with(engine: Engine, start: Callable[..., None], *arguments: Any) -> None:
    """A team that begins so does one task."""
    with engine.each(start=start, arguments=arguments) as each:
        assert list(each(abs, [-1])) == [1]


def begin_build(recipe: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """A build by the command, in a session of its own."""
    command = [sys.executable, "-m", "builder", "build", "--recipe", str(recipe), "--out", str(out), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=out.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finished(running: subprocess.Popen[str]) -> str:
    """What a build says that ends well."""
    said, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    assert "Traceback" not in errors
    return said + errors


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of seven shards, built by processes of this machine."""
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "killed.yaml").write_text(KILLED.format(recipes=ROOT / "recipes"))
    finished(begin_build(folder / "killed.yaml", folder / "ds", "--workers", "2"))
    return folder / "ds"


def some_shards(out: Path, least: int = 1) -> Callable[[], bool]:
    """Whether a build that's at work has finished some shards."""
    return lambda: len(list(resume.partial_of(out).glob("reports/*/*.json"))) >= least


def children_of(pid: int) -> list[int]:
    """Processes under a process and its threads, at any depth."""
    try:
        mine = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    except OSError:
        return []
    return mine + [below for child in mine for below in children_of(child)]


def alive(pid: int) -> bool:
    """Whether a process does anything: one that's only listed until somebody asks for its status doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_shard(unbroken: Path, tmp_path: Path) -> None:
    """SIGKILL to one of two workers, with its nanny, so that it doesn't come back: the build ends with the unbroken build's bytes."""
    out = tmp_path / "ds"
    with scheduler_in(tmp_path) as file, worker_of(file, "one") as first, worker_of(file, "two"):
        both_there(file)
        running = begin_build(unbroken.parent / "killed.yaml", out, "--engine", "dask", "--scheduler", str(file))
        until(some_shards(out))
        os.killpg(first.pid, signal.SIGKILL)
        said = finished(running)
    assert contents(out) == contents(unbroken)
    assert "its worker ended or was lost; it's done once more by another" in said


@pytest.mark.slow
def test_a_cluster_of_this_machine_needs_no_scheduler(unbroken: Path, tmp_path: Path) -> None:
    """`--engine dask` alone starts its own; a worker of it that's killed is made good; no process is left."""
    out = tmp_path / "ds"
    running = begin_build(unbroken.parent / "killed.yaml", out, "--engine", "dask", "--workers", "2")
    until(some_shards(out))
    mine = children_of(running.pid)
    workers = [pid for pid in mine if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(workers[0], signal.SIGKILL)
    finished(running)
    assert contents(out) == contents(unbroken)
    until(lambda: not [pid for pid in mine if alive(pid)], 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["own cluster", "running cluster"])
def test_a_build_on_dask_that_is_stopped_goes_on_anywhere(unbroken: Path, tmp_path: Path, where: str) -> None:
    """Ctrl-C to the group: exit 130 and how to go on, no traceback; what was begun ends; processes of this machine go on."""
    out, recipe = tmp_path / "ds", unbroken.parent / "killed.yaml"
    with ExitStack() as stack:
        options = ["--engine", "dask", "--workers", "2"]
        if where == "running cluster":
            file = stack.enter_context(scheduler_in(tmp_path))
            stack.enter_context(worker_of(file, "one"))
            options += ["--scheduler", str(file)]
        running = begin_build(recipe, out, *options)
        until(some_shards(out))
        mine = children_of(running.pid)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        assert running.returncode == 130, errors
        assert "run the same command again to go on" in errors
        assert "Traceback" not in errors
        until(lambda: not [pid for pid in mine if alive(pid)], 10.0)
        if where == "running cluster":
            with dask_engine.opened(1, str(file), 30.0) as engine, engine.each() as each:
                assert list(each(abs, [-1])) == [1]
        said = finished(begin_build(recipe, out, "--workers", "2"))
    assert re.search(r"resume   [1-6] of 7 shards are already there and whole", said)
    assert contents(out) == contents(unbroken)
