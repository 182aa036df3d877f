"""Where a dataset can be put: found out before any work, and the same bytes wherever it is."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from stores import files

from builder import places, resume
from builder.__main__ import main
from builder.errors import VocalgradError

Mount = Callable[..., None]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts something until the test ends; skips where that isn't allowed."""
    with ExitStack() as stack:

        def mount(*arguments: str | Path) -> None:
            if os.getuid() != 0 or subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode != 0:
                pytest.skip("only root can mount")
            stack.callback(subprocess.run, ["umount", str(arguments[-1])], check=True)

        yield mount


def build(source: Path, out: str | Path) -> int:
    """Build four pairs and a control; the exit status."""
    return main(["build", "--recipe", str(source / "noise.yaml"), "--out", str(out), "--workers", "1"])


def data(root: Path) -> dict[str, bytes]:
    """What a build has made, but for what its audit and its card say of this run."""
    return {name: value for name, value in files(root).items() if name.startswith(("data/", "reports/", "manifest.json"))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["another disk", "a bind mount", "the working folder", "above the working folder"])
def test_a_folder_that_cannot_be_renamed_is_built_into(
    kind: str, audited: Path, tmp_path: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dataset is copied in, a first one and one that replaces another; the folder stays the same one, and nothing is left beside it."""
    out = tmp_path / "place" / "ds"
    (out / "data").mkdir(parents=True)
    (out / "lost+found").mkdir()
    if kind == "another disk":
        mount("-t", "tmpfs", "-o", "size=20m", "tmpfs", out)
    elif kind == "a bind mount":
        (tmp_path / "real").mkdir()
        mount("--bind", tmp_path / "real", out)
    else:
        (out / "data").rmdir()
        shutil.copytree(audited, out, dirs_exist_ok=True)
        (out / "data" / "stray.parquet").touch()
        (out / "data" / "loudness" / "test-00000-of-00001.parquet").unlink()
        monkeypatch.chdir(out if kind == "the working folder" else out / "data")
    before = out.stat()
    for _ in range(2):
        assert build(audited.parent, "." if kind == "the working folder" else out) == 0
        assert data(out) == data(audited)
        assert os.path.samestat(out.stat(), before)
        assert [path.name for path in out.parent.iterdir()] == ["ds"]
    if kind == "the working folder":
        assert main(["validate", "--dataset", "."]) == 0


def test_a_folder_that_refuses_renames_at_the_end_is_copied_into(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As overlays do that hold a folder in a lower layer: EXDEV where the old dataset should make room."""

    def refused(path: Path, target: Path) -> Path:
        if path.name == "ds":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
        return path.rename(target)

    out, partial = tmp_path / "ds", tmp_path / "ds.partial"
    shutil.copytree(audited, out)
    shutil.copytree(audited, partial)
    (out / "README.md").write_text("old")
    monkeypatch.setattr(resume, "_exchanged", lambda one, other: False)
    monkeypatch.setattr(Path, "replace", refused)
    resume.swap(partial, out)
    assert files(out) == files(audited)
    assert [path.name for path in tmp_path.iterdir()] == ["ds"]


@pytest.mark.parametrize("command", ["build", "shard"])
def test_the_root_is_refused(command: str, audited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No dataset can take its place: a folder in it is named instead."""
    name = ["loudness/test-00000-of-00001"] if command == "shard" else []
    assert main([command, *name, "--recipe", str(audited.parent / "noise.yaml"), "--out", "/"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"vocalgrad {command}: / can't be replaced by a dataset: give a folder in it, such as OUT=/vocalgrad\n",
    )


@pytest.mark.parametrize("command", ["build", "shard"])
@pytest.mark.parametrize("there", [True, False])
def test_a_read_only_place_is_told_before_any_work(
    command: str, there: bool, audited: Path, tmp_path: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the folder that can't be written to; not even the recipe is read."""
    place = tmp_path / "disk"
    (place / "ds").mkdir(parents=True)
    out = place / "ds" if there else place / "new" / "ds"
    mount("-t", "tmpfs", "-o", "ro", "tmpfs", place)
    name = ["loudness/test-00000-of-00001"] if command == "shard" else []
    assert main([command, *name, "--recipe", str(tmp_path / "nix.yaml"), "--out", str(out)]) == 1
    told = f"{out}.partial, where a build grows, can't be made: Read-only file system: {place}; give another OUT"
    assert capsys.readouterr().err.startswith(f"vocalgrad {command}: {told}")


def test_a_mount_that_is_read_only_is_told(tmp_path: Path, mount: Mount) -> None:
    """The folder beside it can be written to, the mount itself can't."""
    out = tmp_path / "ds"
    out.mkdir()
    mount("-t", "tmpfs", "-o", "ro", "tmpfs", out)
    with pytest.raises(VocalgradError, match=f"^{out} can't be written to: Read-only file system"):
        resume.check_replaceable(out)
    assert [path.name for path in tmp_path.iterdir()] == ["ds"]


def test_room_is_counted_on_each_disk(tmp_path: Path, mount: Mount) -> None:
    """A mount needs room for the copy; its own files give way one by one, and need none."""
    out = tmp_path / "ds"
    out.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", out)
    resume.check_room(out, 1_900_000, "clips")
    with pytest.raises(VocalgradError, match=rf"^clips need about 2\.2 MB more on the disk of {out}, and 1\.0 MB are free"):
        resume.check_room(out, 2_200_000, "clips")
    (out / "old").write_bytes(bytes(500_000))
    resume.check_room(out, 1_500_000, "clips")


def test_a_loop_of_links_is_told(audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link to itself is no place, and no traceback."""
    out = tmp_path / "loop"
    out.symlink_to(out)
    assert places.whole(out) == out
    assert build(audited.parent, out) == 1
    assert str(out) in capsys.readouterr().err
