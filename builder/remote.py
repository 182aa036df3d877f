"""A dataset that's built in an object store: one build at a time, and how a whole one takes the place of the old one.

A store has no exchange of folders. So a mark, `<out>.partial.swap`, says that what lies in `<out>.partial` is whole and valid; then
the old manifest goes, which makes the old dataset none; the new files are copied inside the store, those that the new one doesn't have
are removed, and its manifest comes last. Only when the mark says that all is copied, the copy in `<out>.partial` is removed. Cut off
anywhere, the next build goes on from the mark. A shard that the manifest doesn't list, from a worker that outlived its build, stays
behind.

The lock is an object that's written only if it isn't there (`If-None-Match: *`). It names a token, which this machine keeps in a file
that the owner has locked: so a lock whose owner was killed on this machine is known for certain, and taken over; one of another machine
never is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from builder import places
from builder.errors import StoreFault, VocalgradError
from builder.words import counted

MANIFEST = "manifest.json"
COPYING, COPIED = b"copying\n", b"copied\n"
"""What the mark says."""

Say = Callable[[str], None]


def check_replaceable(out: Path, mark: Path) -> None:
    """Raise `VocalgradError` if a dataset can't be built here: no prefix, nothing that can be written to, or other files."""
    if str(out).startswith("hf://"):
        raise VocalgradError(f"{out}: a build can't write to the Hub: build to a folder or s3://, then `vocalgrad publish`")
    if out.parent == out or not out.name:
        raise VocalgradError(f"{out} names no folder in a bucket: give one, such as {str(out).rstrip('/')}/vocalgrad")
    there = places.names(out)
    if there and MANIFEST not in there and not places.exists(mark):
        raise VocalgradError(
            f"{out} holds {counted(len(there), 'file')}, such as {there[0]}, and isn't a dataset built by vocalgrad (no manifest.json): "
            "move them away or give another OUT"
        )


# -- one at a time ----------------------------------------------------------------------------------------------------


@contextmanager
def locked(lock: Path, partial: Path) -> Iterator[None]:
    """One build, or single shard, at a time per prefix.

    Raises
    ------
    VocalgradError
        Another one is at work, or was killed on another machine: which, since when, and what to do.
    """
    with _token_of_this_machine(lock, partial) as token:
        mine = {"token": token, "host": platform.node(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        written = json.dumps(mine).encode()
        try:
            places.create(written, lock)
        except FileExistsError:
            held = _held(lock)
            if held.get("token") != token:
                raise VocalgradError(_taken(held, lock, partial)) from None
            places.write(written, lock)  # its owner was killed: alive, it would have the file of the token
        try:
            yield
        finally:
            with suppress(StoreFault):  # this machine knows it as its own the next time
                if _held(lock) == mine:
                    places.remove(lock.parent, [lock.name])


@contextmanager
def _token_of_this_machine(lock: Path, partial: Path) -> Iterator[str]:
    """This machine's name for a lock, while no other process here has it."""
    name = f"vocalgrad-{os.getuid()}-{hashlib.sha256(str(lock).encode()).hexdigest()[:16]}.lock"
    descriptor = os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise VocalgradError(f"another build on this machine is writing to {partial}: wait for it, or give another OUT") from error
        token = stream.read()
        if not token:
            token = uuid.uuid4().hex
            stream.write(token)
            stream.flush()
        yield token


def _held(lock: Path) -> dict[str, Any]:
    """What a lock says; nothing if it's gone or isn't one."""
    try:
        found = json.loads(places.content(lock))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _taken(held: dict[str, Any], lock: Path, partial: Path) -> str:
    who = f"process {held.get('pid', '?')} on {held.get('host', '?')}, since {held.get('since', '?')}"
    return (
        f"another build is writing to {partial} ({who}): wait for it, or give another OUT; "
        f"if it's dead for certain, remove its lock, such as with `aws s3 rm {lock}`"
    )


# -- the swap ---------------------------------------------------------------------------------------------------------


def swap(partial: Path, out: Path, mark: Path) -> None:
    """Put a whole dataset in the place of the old one; where it's cut off, `recover` goes on."""
    places.write(COPYING, mark)
    _copy_all(partial, out)
    places.write(COPIED, mark)
    _clean(partial, mark)


def recover(partial: Path, out: Path, mark: Path, say: Say) -> None:
    """Go on with a swap that was cut off."""
    try:
        said = places.content(mark)
    except FileNotFoundError:
        return
    if said == COPYING:
        _copy_all(partial, out)
        places.write(COPIED, mark)
    _clean(partial, mark)
    say(f"resume   {out} was just being replaced when a build was cut off: finished, it's the dataset that was whole then")


def _copy_all(partial: Path, out: Path) -> None:
    shards = [item["shard"] for item in json.loads(places.content(partial / MANIFEST))["shards"]]
    listed = {f"{folder}/{name}{ending}" for name in shards for folder, ending in (("data", ".parquet"), ("reports", ".json"))}
    wanted = [name for name in places.names(partial) if name in listed or not name.startswith(("data/", "reports/"))]
    places.remove(out, [MANIFEST])
    for name in wanted:
        if name != MANIFEST:
            places.copy(partial / name, out / name)
    places.remove(out, sorted(set(places.names(out)) - set(wanted)))
    places.copy(partial / MANIFEST, out / MANIFEST)


def _clean(partial: Path, mark: Path) -> None:
    places.remove(partial, places.names(partial))
    places.remove(mark.parent, [mark.name])
