"""What lies in a folder, at a glance: for the message that a corpus isn't there in the layout that was asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath

from builder import places

MOST_FILES = 20_000
"""Files that are looked at."""
MOST_NAMES = 8
"""Entries and suffixes that are told."""
SIGNS = {
    "layout: {kind: vctk}": ("wav48_silence_trimmed/*/*.flac", "wav48/*/*.wav"),
    "layout: {kind: common_voice}": ("clips/*.mp3",),
    "layout: {kind: libritts}": ("speakers.tsv", "*/*/*/*.normalized.txt"),
    "layout: {kind: librispeech}": ("SPEAKERS.TXT", "*/*/*/*.trans.txt"),
    "layout: {kind: festvox}": ("etc/txt.done.data",),
    "table: table.csv": ("table.csv",),
}
"""How a corpus recipe lists recordings, and paths of which one shows that they lie so."""
WEAK_SIGNS = {
    "columns: of a dataset": ("*.parquet", "*/metadata.csv", "*/metadata.jsonl"),
    "layout: {kind: files}": ("*.wav", "*.flac", "*.mp3", "*.ogg", "*.opus", "*.aiff"),
}
"""The same, at any depth, where nothing else is known."""


def told(root: Path) -> str:
    """The entries of a folder, how many files of which suffix lie below, and what would read them, in one clause."""
    files = list(islice(_files(root), MOST_FILES))
    if not files:
        return "nothing lies in it"
    entries = Counter(name.partition("/")[0] + "/" * ("/" in name) for name in files)
    suffixes = Counter(PurePosixPath(name).suffix.lower() or "no suffix" for name in files)
    counted = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(MOST_NAMES))
    more = ", and more" if len(files) == MOST_FILES else ""
    return f"in it: {_some(sorted(entries))} (files: {counted}{more}){_fitting(files)}"


def _files(root: Path) -> Iterator[str]:
    if places.is_remote(root):
        yield from places.names(root)
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        yield from ((Path(folder) / name).relative_to(root).as_posix() for name in sorted(names))


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _fitting(files: list[str]) -> str:
    """What would read a folder, or the first folder in it that looks like a corpus."""
    inside: dict[str, list[str]] = {"": files}
    for name in files:
        top, _, below = name.partition("/")
        if below:
            inside.setdefault(top, []).append(below)
    for folder, names in inside.items():
        for listed, patterns in SIGNS.items():
            if any(fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in patterns for name in names):
                return f"; it looks like {listed}" + (f" with inside: {folder}" if folder else "")
    weak = (listed for listed, patterns in WEAK_SIGNS.items() if any(fnmatchcase(name, pattern) for pattern in patterns for name in files))
    return "".join(f"; it could be read by {listed}" for listed in list(weak)[:1])
