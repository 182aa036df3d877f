"""A dataset that's built in an object store: where it may be, and one build at a time.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from builder import places
from builder.copying import MANIFEST
from builder.errors import StoreFault, VocalgradError
from builder.words import counted


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
