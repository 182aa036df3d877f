"""What a build finds of builds before it, and how a whole one takes the place of the old one.

A shard is kept if its report is whole, of the same plan and the same code, and names the checksum of the Parquet that's there. What isn't
kept is said. `<out>` is replaced in one step, by an exchange of two folders, where the system has one; in a store as `remote` tells.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from builder import places, plan, remote
from builder.errors import VocalgradError
from builder.layout import copy_file, is_temporary, parquet_path, report_path, sync_folder
from builder.records import ShardPlan
from builder.words import counted

SWAP = ".partial.swap"
MAX_LINES = 10
"""Shards that are told one by one."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
OTHER_SHARDS = "shards that this plan doesn't have"
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
    told = [f"{count} {what}" for what, count in removed.items() if count]
    if told:
        say(f"resume   removed {' and '.join(told)} of an earlier build from {partial}")


def _cleared(shards: Sequence[ShardPlan], partial: Path, whole: Mapping[str, Any]) -> Counter[str]:
    wanted = {place(partial, item) for item in shards if item.name in whole for place in (parquet_path, report_path)}
    mine = {parquet_path(partial, item) for item in shards}
    removed: Counter[str] = Counter()
    for path in sorted(partial.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.rmdir()  # only if it's empty
        elif path not in wanted:
            path.unlink()
            removed["temporary files"] += is_temporary(path)
            removed[OTHER_SHARDS] += path.suffix == ".parquet" and path not in mine and not is_temporary(path)
    return removed


def _cleared_remote(shards: Sequence[ShardPlan], partial: Path, whole: Mapping[str, Any]) -> Counter[str]:
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
    """Raise `VocalgradError` if there's something in `out` that isn't a built dataset, or a file where its folder should be."""
    if places.is_remote(out):
        remote.check_replaceable(out, _beside(out, SWAP))
        return
    above = next(folder for folder in out.parents if folder.exists())
    if not above.is_dir():
        raise VocalgradError(f"{out} can't be made: {above} isn't a folder; give another OUT")
    empty = out.is_dir() and not any(out.iterdir())
    if out.exists() and not empty and not (out / "manifest.json").is_file():
        raise VocalgradError(f"{out} exists and isn't a dataset built by vocalgrad (no manifest.json): move it away or give another OUT")


@contextmanager
def locked(out: Path, *, shared: bool = False) -> Iterator[None]:
    """One build at a time per output folder; several that make single shards (`shared`) may go on beside each other on a disk.

    Raises
    ------
    VocalgradError
        Another one is at work.
    """
    path = _beside(out, ".partial.lock")
    if places.is_remote(out):
        check_replaceable(out)
        with remote.locked(path, partial_of(out)):
            yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
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
    if places.is_remote(out):
        remote.recover(partial_of(out), out, _beside(out, SWAP), say)
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
    """Before a single shard is written: go on with a swap in an object store, which needs all that lies in `<out>.partial`."""
    if places.is_remote(out):
        recover(out, say)


def swap(partial: Path, out: Path) -> None:
    """Put a whole dataset in the place of the old one: in one step, or in two that `recover` can put right."""
    if places.is_remote(out):
        remote.swap(partial, out, _beside(out, SWAP))
        return
    old = _beside(out, ".partial.old")
    if not out.exists():
        partial.replace(out)
    elif _exchanged(partial, out):
        partial.replace(old)
    else:
        out.replace(old)
        partial.replace(out)
    sync_folder(out.parent)
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system can't."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
