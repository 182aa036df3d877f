"""What a Hub with Xet storage knows: the client puts chunks into a folder itself, and each file's checksum stands in an index there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

RECORD = 48
VERIFIED, WITH_SHA256 = 1 << 31, 1 << 30


def stored(folder: Path) -> dict[str, str]:
    """Xet's hash of every file that was uploaded to `local://<folder>`, by SHA-256."""
    found: dict[str, str] = {}
    for path in folder.rglob("*.mdb"):
        found |= dict(_files(path.read_bytes()))
    return found


def _files(index: bytes) -> Iterator[tuple[str, str]]:
    at = RECORD
    while index[at : at + 32] != b"\xff" * 32:
        flags, n_parts = struct.unpack_from("<II", index, at + 32)
        parts = n_parts * (2 if flags & VERIFIED else 1)
        end = at + RECORD * (1 + parts)
        if flags & WITH_SHA256:
            yield _hex(index[end : end + 32]), _hex(index[at : at + 32])
            end += RECORD
        at = end


def _hex(number: bytes) -> str:
    return "".join(f"{part:016x}" for part in struct.unpack("<4Q", number))
