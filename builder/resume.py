"""What a build finds of builds before it, and how a whole one takes the place of the old one.

A shard is kept if its report is whole, of the same plan and the same code, and names the checksum of the Parquet that's there. What isn't
kept is said. `<out>` is replaced in one step, by an exchange of two folders, where the system has one; where no folder can be renamed, as
`copying` tells.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from builder import copying, places, plan, remote
from builder.errors import VocalgradError
from builder.layout import copy_file, is_temporary, parquet_path, report_path
from builder.records import ShardPlan
from builder.words import counted

SWAP = ".partial.swap"
MAX_LINES = 10
"""Shards that are told one by one."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
STAYS = {"lost+found"}
"""What an empty folder may hold: the root of a file system has it."""
TEMPORARY = ("temporary file", "temporary files")
OTHER_SHARDS = ("shard that this plan doesn't have", "shards that this plan doesn't have")
OTHER_PLAN, OTHER_CODE = "of another recipe, seed or source", "made by other code or package versions"

Say = Callable[[str], None]

# -- one shard --------------------------------------------------------------------------------------------------------


def sealed(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report with a checksum of all that's in it."""
    return {**report, "report_sha256": _seal(report)}


def _seal(report: Mapping[str, Any]) -> str:
    values = {key: value for key, value in report.items() if key != "report_sha256"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def look(root: Path, planned: ShardPlan, factory: str) -> tuple[dict[str, Any] | None, str | None]:
    """A shard's report if it's whole in `root`, or what's wrong with it.

    Returns
    -------
    tuple
        (report, None) for a whole shard; (None, fault) for a bad one; (None, None) if there's nothing of it.
    """
    parquet, report = parquet_path(root, planned), report_path(root, planned)
    try:
        found = json.loads(places.text(report))
        whole = found["report_sha256"] == _seal(found)
    except FileNotFoundError:
        return None, "its report isn't there" if places.exists(parquet) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        whole = False
    if not whole:
        return None, "its report is cut short or altered"
    if found["plan_digest"] != plan.shard_digest(planned):
        return None, OTHER_PLAN
    if found["factory_digest"] != factory:
        return None, OTHER_CODE
    try:
        with places.opened(parquet) as stream:
            same = hashlib.file_digest(stream, "sha256").hexdigest() == found["parquet_sha256"]
    except OSError as error:
        return None, f"its Parquet can't be read ({error.strerror or 'No such file'})"
    return (found, None) if same else (None, "its checksum isn't the report's")


# -- all shards -------------------------------------------------------------------------------------------------------


def kept(shards: Sequence[ShardPlan], factory: str, partial: Path, out: Path, say: Say) -> dict[str, dict[str, Any]]:
    """Reports of the shards that are whole, by name: in `partial`, or in `out` and copied from there. Says what was found."""
    reports: dict[str, dict[str, Any]] = {}
    faults: dict[str, str] = {}
    for item in shards:
        report, fault = look(partial, item, factory)
        if report is None:
            report, old_fault = look(out, item, factory)
            fault = fault or (None if old_fault == OTHER_PLAN else old_fault)
            if report is not None:
                for place in (parquet_path, report_path):
                    copy_file(place(out, item), place(partial, item))
        if report is not None:
            reports[item.name] = report
        if fault is not None:
            faults[item.name] = fault + (f", taken from {out}" if report is not None else ", made again")
    if reports or faults:
        say(f"resume   {len(reports)} of {counted(len(shards), 'shard is', 'shards are')} already there and whole")
    for line in _told(faults):
        say(f"resume   {line}")
    return reports


def _told(faults: Mapping[str, str]) -> Iterator[str]:
    """A line for each fault; one line for all shards that another plan or other code made."""
    common = Counter(fault for fault in faults.values() if fault.startswith((OTHER_PLAN, OTHER_CODE)))
    yield from (f"{counted(count, 'shard')} {fault}" for fault, count in common.items())
    single = [f"{name}: {fault}" for name, fault in faults.items() if fault not in common]
    yield from single[:MAX_LINES]
    if len(single) > MAX_LINES:
        yield f"... and {len(single) - MAX_LINES} more such shards"


def clear_stale(shards: Sequence[ShardPlan], partial: Path, whole: Mapping[str, Any], say: Say) -> None:
    """Remove what no whole shard of this plan owns, and say so of what a cut-off build or another plan has left."""
    removed = (_cleared_remote if places.is_remote(partial) else _cleared)(shards, partial, whole)
    told = [counted(count, *what) for what, count in removed.items() if count]
    if told:
        say(f"resume   removed {' and '.join(told)} of an earlier build from {partial}")


def _cleared(shards: Sequence[ShardPlan], partial: Path, whole: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    wanted = {place(partial, item) for item in shards if item.name in whole for place in (parquet_path, report_path)}
    mine = {parquet_path(partial, item) for item in shards}
    removed: Counter[tuple[str, str]] = Counter()
    for path in sorted(partial.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.rmdir()  # only if it's empty
        elif path not in wanted:
            path.unlink()
            removed[TEMPORARY] += is_temporary(path)
            removed[OTHER_SHARDS] += path.suffix == ".parquet" and path not in mine and not is_temporary(path)
    return removed


def _cleared_remote(shards: Sequence[ShardPlan], partial: Path, whole: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    wanted = {place(partial, item) for item in shards if item.name in whole for place in (parquet_path, report_path)}
    mine = {parquet_path(partial, item) for item in shards}
    gone = [name for name in places.names(partial) if partial / name not in wanted]
    places.remove(partial, gone)
    return Counter({OTHER_SHARDS: sum(name.endswith(".parquet") and partial / name not in mine for name in gone)})


# -- the folder -------------------------------------------------------------------------------------------------------


def _beside(out: Path, ending: str) -> Path:
    return out.with_name(out.name + ending)


def partial_of(out: Path) -> Path:
    """Where a build is made that isn't whole yet."""
    return _beside(out, ".partial")


def check_replaceable(out: Path) -> None:
    """Raise `VocalgradError` if a dataset can't take this place: nothing may be written there, or something else is in it."""
    mark = _beside(out, SWAP) if out.name else None
    if places.is_remote(out):
        remote.check_replaceable(out, mark or out)
        return
    if mark is None:
        raise VocalgradError(f"{out} can't be replaced by a dataset: give a folder in it, such as OUT={out / 'vocalgrad'}")
    above = next(folder for folder in out.parents if folder.exists())
    if not above.is_dir():
        raise VocalgradError(f"{out} can't be made: {above} isn't a folder; give another OUT")
    empty = out.is_dir() and not {entry.name for entry in out.iterdir()} - STAYS
    if out.exists() and not empty and not (out / copying.MANIFEST).is_file() and not mark.exists():
        raise VocalgradError(f"{out} exists and isn't a dataset built by vocalgrad (no manifest.json): move it away or give another OUT")
    _check_writable(above, f"{partial_of(out)}, where a build grows, can't be made")
    if out.exists() and not _renamable(out):
        _check_writable(out, f"{out} can't be written to")


def _check_writable(folder: Path, told: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise VocalgradError(f"{told}: {error.strerror}: {folder}; give another OUT, a folder inside one that you may write to") from error


def _renamable(out: Path) -> bool:
    """Whether a folder that's there can be renamed, and one that isn't can be made by a rename.

    A rename onto a folder that isn't empty never does anything, and fails for that reason alone where nothing else is in its way.
    """
    if _is_worked_in(out):
        return False
    above = next(folder for folder in out.parents if folder.exists())
    with tempfile.TemporaryDirectory(prefix=f"{out.name}.partial.", dir=above) as probe:
        full = Path(probe) / "full"
        (full / "inner").mkdir(parents=True)
        try:
            if out.exists():
                out.rename(full)
            full.rename(full.with_name("renamed"))
        except OSError as error:
            return error.errno in (errno.ENOTEMPTY, errno.EEXIST)
    return True


def _is_worked_in(folder: Path) -> bool:
    """Whether this process, and so whoever started it, is in a folder: were it renamed and removed, they would be nowhere."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return False
    return folder in (here, *here.parents)


def check_room(out: Path, n_bytes: int, what: str) -> None:
    """Raise `VocalgradError` if there's clearly too little room for a dataset: less than half of what it needs by estimate.

    Parameters
    ----------
    n_bytes
        The estimate of the whole dataset; what's there of it already needs no more.
    what
        What it's an estimate of, for people.
    """
    if places.is_remote(out):
        return
    needed: Counter[int] = Counter()
    for folder in [partial_of(out), *([] if _renamable(out) else [out])]:
        above = next(place for place in (folder, *folder.parents) if place.exists())
        device, free = above.stat().st_dev, shutil.disk_usage(above).free
        needed[device] += max(n_bytes - places.total_bytes(folder), 0)
        if free < needed[device] / 2:
            raise VocalgradError(
                f"{what} need about {needed[device] / 1e6:,.1f} MB more on the disk of {folder}, and {free / 1e6:,.1f} MB are free: "
                "free some space, give another OUT, or ask for fewer pairs"
            )


@contextmanager
def locked(out: Path, *, shared: bool = False) -> Iterator[None]:
    """One build at a time per output folder; several that make single shards (`shared`) may go on beside each other on a disk.

    Raises
    ------
    VocalgradError
        Another one is at work.
    """
    check_replaceable(out)
    path = _beside(out, ".partial.lock")
    if places.is_remote(out):
        with remote.locked(path, partial_of(out)):
            yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    shared = shared and not _beside(out, SWAP).exists()  # that is for one alone to end
    stream = path.open("w")
    try:
        fcntl.flock(stream, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        if not path.exists() or not os.path.samestat(os.fstat(stream.fileno()), path.stat()):
            raise BlockingIOError(errno.EWOULDBLOCK, "whoever had it is just ending")
    except BlockingIOError as error:
        stream.close()
        raise VocalgradError(f"another build is writing to {partial_of(out)}: wait for it, or give another OUT") from error
    with stream:
        try:
            yield
        finally:
            with suppress(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody else has it
                path.unlink(missing_ok=True)


def recover(out: Path, say: Say) -> None:
    """Put right what a swap has left that was cut off."""
    go_on(out, say)
    if places.is_remote(out):
        return
    old = _beside(out, ".partial.old")
    if not old.exists():
        return
    if out.exists():
        shutil.rmtree(old)
        say(f"resume   removed {old}, the dataset that {out} has replaced")
    else:
        old.replace(out)
        say(f"resume   {out} was about to be replaced when a build was cut off: put back until the new one is whole")


def go_on(out: Path, say: Say) -> None:
    """Go on with a swap by copying, which needs all that lies in `<out>.partial`: before a single shard is written, too."""
    copying.recover(partial_of(out), out, _beside(out, SWAP), say)


def swap(partial: Path, out: Path) -> None:
    """Put a whole dataset in the place of the old one: in one step, or in some that `recover` can put right."""
    old = _beside(out, ".partial.old")
    if places.is_remote(out) or _is_worked_in(out) or not _renamed(partial, out, old):
        copying.swap(partial, out, _beside(out, SWAP))
    if not places.is_remote(out):
        places.sync_folder(out.parent)
        shutil.rmtree(old, ignore_errors=True)


def _renamed(partial: Path, out: Path, old: Path) -> bool:
    """Rename a folder to the name of another, which becomes `old`; False where the system or the file system can't, as with a mount."""
    try:
        if not out.exists():
            partial.replace(out)
            return True
        exchanged = _exchanged(partial, out)
        if not exchanged:
            out.replace(old)
            partial.replace(out)
    except OSError:
        return False
    if exchanged:
        partial.replace(old)
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system can't."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
