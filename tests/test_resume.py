"""Builds that were cut off: what the next one finds, says, keeps and makes again; nothing is ever half-written."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builder import fill, layout, pipeline, resume, shard
from builder.__main__ import main
from builder.errors import DiskFull, VocalgradError
from builder.factory import factory_digest
from builder.fill import Context, Filler
from builder.layout import read_manifest
from builder.workers import Local

ROOT = Path(__file__).parent.parent


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a dataset but its audit, and its card, which says what the audit found."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in ("audit", "README.md")
    }


def build(source: Path, out: Path) -> list[str]:
    """Lines that a build says, in this process."""
    said: list[str] = []
    pipeline.build(source / "noise.yaml", None, out, Local(1), said.append)
    return said


@pytest.fixture
def out(audited: Path, tmp_path: Path) -> Path:
    """A copy of a whole dataset of four shards, to do harm to."""
    shutil.copytree(audited, tmp_path / "ds", ignore=shutil.ignore_patterns("audit"))
    return tmp_path / "ds"


@pytest.fixture
def source(audited: Path) -> Path:
    """The folder of its recipe."""
    return audited.parent


# -- what is found ----------------------------------------------------------------------------------------------------


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _recount(path: Path) -> None:
    report = json.loads(path.read_text())
    report["cells"][0]["tried"] += 1
    path.write_text(json.dumps(report))


def _list(path: Path) -> None:
    path.write_text("[]")


@pytest.mark.parametrize(
    ("part", "harm", "said"),
    [
        ("data", _cut, "its checksum isn't the report's"),
        ("data", _flip, "its checksum isn't the report's"),
        ("data", _empty, "its checksum isn't the report's"),
        ("data", Path.unlink, r"its Parquet can't be read \(No such file or directory\)"),
        ("reports", _cut, "its report is cut short or altered"),
        ("reports", _flip, "its report is cut short or altered"),
        ("reports", _empty, "its report is cut short or altered"),
        ("reports", _list, "its report is cut short or altered"),
        ("reports", _recount, "its report is cut short or altered"),
        ("reports", Path.unlink, "its report isn't there"),
    ],
)
def test_a_shard_that_is_not_whole_is_told(out: Path, source: Path, part: str, harm: Callable[[Path], None], said: str) -> None:
    """Cut short, altered by one bit, emptied, gone, a count changed: each is found in shard or report, and named."""
    planned, _ = pipeline.load_plan(source / "noise.yaml", None)
    first = planned.shards[0]
    report, fault = resume.look(out, first, factory_digest())
    assert report is not None
    assert fault is None
    harm(next((out / part).rglob(f"{Path(first.name).name}.*")))
    report, fault = resume.look(out, first, factory_digest())
    assert report is None
    assert fault is not None
    assert re.fullmatch(said, fault), fault


def test_only_what_was_harmed_is_made_again_and_said(out: Path, source: Path) -> None:
    """Of four shards one is cut short and one report altered: both are named and made again, the rest kept, and all bytes are the same."""
    before = contents(out)
    names = sorted(before_name for before_name in before if before_name.startswith("data/"))
    _cut(out / names[0])
    _recount(out / names[1].replace("data/", "reports/").replace(".parquet", ".json"))
    partial = resume.partial_of(out)
    (partial / "data" / "loudness").mkdir(parents=True)
    (partial / "data" / "loudness" / ".test-00000-of-00001.parquet.77").write_bytes(b"half")
    (partial / "data" / "loudness" / "test-00000-of-00009.parquet").write_bytes(b"other")
    said = build(source, out)
    assert f"resume   {len(names) - 2} of {len(names)} shards are already there and whole" in said
    assert f"resume   {names[0][5:-8]}: its checksum isn't the report's, made again" in said
    assert f"resume   {names[1][5:-8]}: its report is cut short or altered, made again" in said
    assert any("removed 1 temporary file and 1 shard that this plan doesn't have" in line for line in said)
    assert contents(out) == before
    assert sorted(path.name for path in out.parent.iterdir()) == ["ds"]


def test_shards_of_another_seed_are_told_in_one_line(out: Path, source: Path) -> None:
    """What an unfinished build with another seed has left isn't used, and isn't listed one by one."""
    partial = resume.partial_of(out)
    out.replace(partial)
    planned, _ = pipeline.load_plan(source / "noise.yaml", 2)
    said: list[str] = []
    assert resume.kept(planned.shards, factory_digest(), partial, out, said.append) == {}
    assert said == ["resume   0 of 4 shards are already there and whole", "resume   4 shards of another recipe, seed or source, made again"]


def test_a_whole_shard_is_taken_from_the_old_dataset(out: Path, source: Path) -> None:
    """A shard that's bad in the unfinished build and whole in the finished one is copied, and that's said."""
    partial = resume.partial_of(out)
    shutil.copytree(out, partial)
    broken = next(partial.glob("data/*/*.parquet"))
    _flip(broken)
    planned, _ = pipeline.load_plan(source / "noise.yaml", None)
    said: list[str] = []
    assert len(resume.kept(planned.shards, factory_digest(), partial, out, said.append)) == 4
    assert any(f"its checksum isn't the report's, taken from {out}" in line for line in said)
    assert broken.read_bytes() == (out / broken.relative_to(partial)).read_bytes()


# -- the swap ---------------------------------------------------------------------------------------------------------


def killed_at(step: int, do: Callable[[], None]) -> bool:
    """Do something in a child that's killed before its n-th change of a folder; whether it came so far."""
    pid = os.fork()
    if pid == 0:
        count = [0]

        def counted(event: str, _: Any) -> None:
            if event in ("os.rename", "os.rmdir", "os.remove", "shutil.rmtree", "ctypes.dlsym"):
                count[0] += 1
                if count[0] == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(counted)
        do()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_swap_that_is_killed_anywhere_loses_nothing(tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before each of its steps: afterwards the old dataset or the new one is there, whole; the new one is never lost."""
    if not exchange:
        monkeypatch.setattr(resume, "_exchanged", lambda one, other: False)
    for step in range(1, 40):
        place = tmp_path / str(step)
        out, partial = place / "ds", resume.partial_of(place / "ds")
        for folder, text in ((out, "old"), (partial, "new")):
            (folder / "data").mkdir(parents=True)
            (folder / "manifest.json").write_text(text)
            (folder / "data" / "one").write_text(text)
        went_on = killed_at(step, lambda partial=partial, out=out: resume.swap(partial, out))  # type: ignore[misc]
        assert out.exists() or not exchange
        resume.recover(out, lambda line: None)
        texts = {(out / name).read_text() for name in ("manifest.json", "data/one")}
        assert texts in ({"old"}, {"new"})
        if texts == {"old"}:
            assert (partial / "manifest.json").read_text() == (partial / "data" / "one").read_text() == "new"
        assert {path.name for path in place.iterdir()} <= {"ds", "ds.partial"}
        if not went_on:
            break
    assert step > 3
    assert texts == {"new"}


def test_a_swap_by_copying_that_is_killed_anywhere_ends_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the working folder, which stays the same folder: what has a manifest is whole; once marked, the new dataset gets there."""
    for step in range(1, 99):
        place = tmp_path / str(step)
        out, partial = place / "ds", resume.partial_of(place / "ds")
        for folder, text, shards in ((out, "old", ("p/one", "p/gone")), (partial, "new", ("p/one", "p/two"))):
            manifest = json.dumps({"text": text, "shards": [{"shard": name} for name in shards]})
            layout.write_text(manifest, folder / "manifest.json")
            layout.write_text(text, folder / "README.md")
            for name in shards:
                layout.write_text(text, folder / "data" / f"{name}.parquet")
        old, new = contents(out), contents(partial)
        monkeypatch.chdir(out)
        went_on = killed_at(step, lambda partial=partial, out=out: resume.swap(partial, out))  # type: ignore[misc]
        there = contents(out)
        ends_new = (place / "ds.partial.swap").exists() or there == new
        assert "manifest.json" not in there or there in (old, new)
        resume.check_replaceable(out)
        with resume.locked(out, shared=True):
            resume.go_on(out, lambda line: None)
        assert contents(out) == (new if ends_new else old)
        assert sorted(path.name for path in place.iterdir()) == (["ds"] if ends_new else ["ds", "ds.partial"])
        assert Path.cwd().samefile(out)
        if not went_on:
            break
    assert step > 8
    assert ends_new


def test_what_a_cut_off_swap_has_left_is_told(tmp_path: Path) -> None:
    """The old dataset is put back where there's none, removed where the new one is there; a user's own copy isn't touched."""
    out, old, users = tmp_path / "ds", tmp_path / "ds.partial.old", tmp_path / "ds.old"
    users.mkdir()
    said: list[str] = []
    old.mkdir()
    resume.recover(out, said.append)
    assert out.exists()
    assert "put back until the new one is whole" in said[-1]
    old.mkdir()
    resume.recover(out, said.append)
    assert not old.exists()
    assert f"removed {old}" in said[-1]
    assert users.exists()


def test_one_build_at_a_time(tmp_path: Path) -> None:
    """A second build is refused, single shards beside each other aren't; no lock is left behind."""
    out = tmp_path / "ds"
    with (
        resume.locked(out),
        pytest.raises(VocalgradError, match=r"another build is writing to .*ds\.partial"),
        resume.locked(out, shared=True),
    ):
        pass
    with (
        resume.locked(out, shared=True),
        resume.locked(out, shared=True),
        pytest.raises(VocalgradError, match="another build"),
        resume.locked(out),
    ):
        pass
    with resume.locked(out):
        pass
    assert list(tmp_path.iterdir()) == []


# -- no space ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """No space or no quota for a text: what was there stays, nothing else is left, and the message says where and what to do."""
    path = tmp_path / "reports" / "one.json"
    layout.write_text("whole", path)

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match=r"no space left on the disk to write .*one.json: .*free some space"):
        layout.write_text("half", path)
    assert [(found.name, found.read_text()) for found in path.parent.iterdir()] == [("one.json", "whole")]


def test_a_full_disk_in_the_middle_of_a_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: Path) -> None:
    """No space at a row group, in the writer of Parquet itself: no file is left."""
    rows = layout.read_rows(audited, "loudness/test-00000-of-00001")
    rows = [{**row, "direction": "up"} for row in rows]

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    monkeypatch.setattr(shard.pq.ParquetWriter, "write_table", full)
    with pytest.raises(DiskFull):
        shard.write(rows, tmp_path / "data" / "one.parquet", 16_000)
    assert list((tmp_path / "data").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 200 kB; skipped where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_build_on_a_small_disk_says_so_and_goes_on_elsewhere(
    small_disk: Path, source: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 with where and what to do, no traceback; only whole files are left, and with more space the bytes are the unbroken build's."""
    full = small_disk / "ds"
    subprocess.run(["mount", "-o", "remount,size=400k", str(small_disk)], check=True)
    assert main(["build", "--recipe", str(source / "noise.yaml"), "--out", str(full), "--workers", "1"]) == 1
    said = capsys.readouterr().err
    assert "no space left on the disk to write" in said
    assert "Traceback" not in said
    assert not full.exists()
    assert not list(small_disk.rglob(".*"))
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    build(source, full)
    assert contents(full) == contents(out)


def test_a_disk_that_is_much_too_small_is_told_before_any_work(small_disk: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine clips of 50 kB into 0.2 MB: both figures, and nothing is made. What's there of them already needs no more room."""
    full, partial = small_disk / "ds", small_disk / "ds.partial"
    assert main(["build", "--recipe", str(source / "noise.yaml"), "--out", str(full), "--workers", "1"]) == 1
    said = capsys.readouterr()
    assert f"9 clips need about 0.5 MB more on the disk of {partial}, and 0.2 MB are free: " in said.err
    assert "validate" not in said.out
    assert not list(small_disk.rglob("*.parquet"))
    (partial / "data").mkdir(parents=True, exist_ok=True)
    (partial / "data" / "some.parquet").write_bytes(bytes(150_000))
    resume.check_room(full, 200_000, "4 clips")
    with pytest.raises(VocalgradError, match=r"9 clips need about 0\.3 MB more"):
        resume.check_room(full, 450_000, "9 clips")


# -- memory -----------------------------------------------------------------------------------------------------------


def test_few_sources_are_kept_and_the_rows_are_the_same(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard filled with room for nothing keeps the source in use alone, and gives the same rows as one that keeps them all."""
    planned, _ = pipeline.load_plan(source / "noise.yaml", None)
    mine = next(item for item in planned.shards if item.n_wanted > 1)
    found = []
    for room, most in ((fill.KEPT_BYTES, mine.n_wanted), (0, 1)):
        monkeypatch.setattr(fill, "KEPT_BYTES", room)
        filler = Filler(mine, Context({}, planned.recipe.speech))
        filler.run()
        assert (len(filler._sources._values) > 1) == (most > 1)
        found.append((filler.rows, filler.report()))
    assert found[0] == found[1]


# -- kills ------------------------------------------------------------------------------------------------------------

KILLED = """\
include: {recipes}/base.yaml
dimensions: [{recipes}/loudness.yaml]
kinds: [noise, tone, pulses]
speech: {{corpus: null}}
tiers: {{medium: 4.0}}
curves: [linear]
pairs_per_cell: {{train: 2, validation: 1, test: 2}}
controls_per_kind: {{train: 1, validation: 0, test: 1}}
max_pairs_per_shard: 2
"""


def begin(recipe: Path, out: Path, workers: int) -> subprocess.Popen[str]:
    """A build in a session of its own."""
    command = [sys.executable, "-m", "builder", "build", "--recipe", str(recipe), "--out", str(out), "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=out.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def workers_of(pid: int) -> list[int]:
    """The build's worker processes."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
    except OSError:
        return []


def killed_after(running: subprocess.Popen[str], wait_s: float, victims: Callable[[], list[int]]) -> bool:
    """Kill the first of some processes after a while; False if there's none (any more)."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.01)
    if running.poll() is not None or not (there := victims()):
        return False
    try:
        os.kill(there[0], signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_builds_killed_at_random_points_end_with_the_same_bytes(tmp_path: Path) -> None:
    """12 kills of workers and parents, at any moment of any stage, with 1 to 3 workers: what is under OUT is always whole, and the
    build that's left alone ends with the bytes of an unbroken one; planned = published, tried = published + rejected, by cell."""
    recipe, out = tmp_path / "killed.yaml", tmp_path / "ds"
    recipe.write_text(KILLED.format(recipes=ROOT / "recipes"))
    started = time.monotonic()
    first = begin(recipe, tmp_path / "unbroken", 2)
    _, errors = first.communicate()
    assert first.returncode == 0, errors
    took_s = time.monotonic() - started
    expected = contents(tmp_path / "unbroken")
    draw = random.Random(20261130)
    kills = 0
    while kills < 12:
        running = begin(recipe, out, draw.choice([1, 2, 3]))
        kills += killed_after(running, draw.uniform(0.05, 0.6) * took_s, lambda pid=running.pid: workers_of(pid))  # type: ignore[misc]
        parent = killed_after(running, draw.uniform(0.0, 0.4) * took_s, lambda pid=running.pid: [pid])  # type: ignore[misc]
        kills += parent
        _, errors = running.communicate()
        assert running.returncode == (-signal.SIGKILL if parent else 0), errors
        assert parent or "Traceback" not in errors
        if out.exists():
            assert contents(out) == expected
            if draw.random() < 0.5:
                shutil.rmtree(out)
    last = begin(recipe, out, 2)
    said, errors = last.communicate()
    assert last.returncode == 0, errors
    assert contents(out) == expected
    for cell in read_manifest(out)["cells"]:
        assert cell["published"] == cell["wanted"]
        assert cell["tried"] == cell["published"] + sum(cell["rejected"].values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "killed.yaml", "unbroken"], said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "ignored"),
    [
        (signal.SIGINT, set()),
        (signal.SIGTERM, {signal.SIGINT, signal.SIGQUIT}),  # as a shell has its background jobs
        (signal.SIGHUP, {signal.SIGINT}),
    ],
)
def test_a_build_that_is_stopped_says_how_to_go_on(tmp_path: Path, number: signal.Signals, ignored: set[signal.Signals]) -> None:
    """Ctrl-C to the whole group, or a signal to the parent: exit 128 + number, how to go on, no worker left, what's finished stays."""
    recipe, out = tmp_path / "killed.yaml", tmp_path / "ds"
    recipe.write_text(KILLED.format(recipes=ROOT / "recipes"))
    before = {other: signal.signal(other, signal.SIG_IGN) for other in ignored}
    running = begin(recipe, out, 2)
    for other, handler in before.items():
        signal.signal(other, handler)
    while running.poll() is None and not list(resume.partial_of(out).glob("reports/*/*.json")):
        time.sleep(0.02)
    children = workers_of(running.pid)
    if number == signal.SIGINT:
        os.killpg(running.pid, number)
    else:
        running.send_signal(number)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert not out.exists()
    assert list(resume.partial_of(out).glob("reports/*/*.json"))
    assert "run the same command again to go on" in errors
    assert "Traceback" not in errors
    assert children
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


@pytest.mark.slow
def test_a_build_that_nohup_began_outlives_its_terminal(tmp_path: Path) -> None:
    """SIGHUP that's ignored when it begins stays ignored, in its workers too."""
    recipe, out = tmp_path / "killed.yaml", tmp_path / "ds"
    recipe.write_text(KILLED.format(recipes=ROOT / "recipes"))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    running = begin(recipe, out, 2)
    signal.signal(signal.SIGHUP, before)
    while running.poll() is None and not list(resume.partial_of(out).glob("reports/*/*.json")):
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGHUP)
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    assert "once more" not in errors
