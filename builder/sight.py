"""Whether a worker sees the folders that its parent sees: on another machine the same path may be another folder, or none."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from builder import places
from builder.errors import NotFound
from builder.layout import write_text

MARK = "seen-by-all-workers"
ADVICE = "every worker needs the same folder under the same path, such as a network disk, or a place that all of them reach by its address"


@contextmanager
def shown(root: Path) -> Iterator[str]:
    """Put a mark into a folder for the time of a build, by which workers know that it's theirs; gives what's in it."""
    token = uuid4().hex
    write_text(token, root / MARK)
    try:
        yield token
    finally:
        places.remove(root, [MARK])


def check_shown(root: Path, token: str) -> None:
    """Raise `NotFound` on a worker that doesn't see the parent's mark."""
    try:
        seen = places.text(root / MARK)
    except OSError:
        seen = ""
    if seen != token:
        raise NotFound(f"worker on {socket.gethostname()}: the output folder {root} isn't there as its parent sees it: {ADVICE}")


def stamp(root: Path) -> str:
    """Digest of a dataset's manifest; empty if it can't be read."""
    try:
        return hashlib.sha256(places.content(root / "manifest.json")).hexdigest()
    except OSError:
        return ""


def check_same(root: Path, seen: str) -> None:
    """Raise `NotFound` on a worker that sees another dataset than its parent, or none."""
    if stamp(root) != seen:
        raise NotFound(f"worker on {socket.gethostname()}: the dataset {root} isn't there as its parent sees it: {ADVICE}")
