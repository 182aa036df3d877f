"""Datasets of the Hugging Face Hub, or folders of the same shapes, as recordings: streamed once, without torch.

Audio is never decoded here: its bytes go to `<cache>/datasets/audio/` under their own checksum, so planning and rendering
stream nothing twice, and one clip can be made again later. What a pinned revision gave is kept as an index beside them; it
counts only while every file that it names is there with its checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from builder import places, tables
from builder.errors import CorpusUnavailable
from builder.fetch import cache_dir, folder_in_cache, sha256_of
from builder.layouts import Listed, Listing, Unlisted, no_speaker
from builder.places import is_url, without_magic
from builder.records import Reason
from builder.spelling import named, words
from builder.strict_yaml import Strict

MOST_FAULTS = 5
"""Faults of a table that are told."""
READ_AS = 2
"""Counts how rows are turned into recordings: an index of another way isn't read."""

Column = Annotated[str, Field(min_length=1)]
Columns = Annotated[tuple[Column, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else (v,)), Field(min_length=1)]


class ColumnRule(Strict):
    """Which column says what. `id`, one or several, is what a row is known by: by default, its number in the split."""

    audio: Column = "audio"
    id: Columns | None = None
    speaker: Column
    text: Column | None = None
    sex: Column | None = None
    language: Column | None = None


@dataclass(frozen=True)
class Wanted:
    """What to take from a dataset.

    Parameters
    ----------
    source
        Identifier on the Hub, or a folder (absolute path).
    revision
        Commit on the Hub; None for a folder.
    config, split
        As the dataset names them.
    columns
        Which column says what.
    only
        Column -> regular expression that a row's value must hold.
    limit, max_per_speaker
        Rows at most, the first in the dataset's order; of one speaker at most.
    """

    source: str
    revision: str | None
    config: str | None
    split: str
    columns: ColumnRule
    only: Mapping[str, str]
    limit: int | None = None
    max_per_speaker: int | None = None

    @property
    def key(self) -> str:
        """Digest of everything that decides which rows are taken."""
        values: list[object] = [READ_AS, self.source, self.revision, self.config, self.split, self.columns.model_dump(), dict(self.only)]
        return hashlib.sha256(json.dumps([*values, self.limit, self.max_per_speaker]).encode()).hexdigest()


@dataclass(frozen=True)
class Kept:
    """A listing whose audio lies in the cache: member -> name of its file (its SHA-256)."""

    listing: Listing
    files: Mapping[str, str]

    def location(self) -> dict[str, Path]:
        """Where each member lies."""
        return {member: audio_path(name) for member, name in self.files.items()}


def audio_path(name: str) -> Path:
    """Where audio bytes of a checksum are kept."""
    return cache_dir() / "datasets" / "audio" / name[:2] / name


def read(wanted: Wanted) -> Kept:
    """The recordings of a dataset, from the cache or streamed.

    Raises
    ------
    CorpusUnavailable
        The dataset can't be reached or opened, has no such column, or two rows have one identifier.
    """
    index = cache_dir() / "datasets" / f"{wanted.key}.json"
    kept = _from_index(index) if wanted.revision else None
    if kept is None:
        kept = _streamed(wanted)
        if wanted.revision:
            _write(index, json.dumps(_plain(kept), ensure_ascii=False).encode())
    return kept


# -- the index --------------------------------------------------------------------------------------------------------


def _plain(kept: Kept) -> dict[str, Any]:
    refused = [asdict(item) for item in kept.listing.refused]
    found = [asdict(item) for item in kept.listing.found]
    return {"found": found, "refused": refused, "unread": dict(kept.listing.unread), "files": dict(kept.files)}


def _from_index(path: Path) -> Kept | None:
    """What was streamed before; None if it wasn't, or a file of it is gone or damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        refused = [Unlisted(**{**item, "reason": Reason(item["reason"])}) for item in values["refused"]]
        listing = Listing([Listed(**item) for item in values["found"]], refused, unread=Counter(values["unread"]))
        files: dict[str, str] = values["files"]
        whole = all(sha256_of(audio_path(name)) == name for name in files.values())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Kept(listing, files) if whole else None


def _write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    folder_in_cache(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as stream:
        stream.write(content)
    Path(stream.name).replace(path)


# -- streaming --------------------------------------------------------------------------------------------------------


def _streamed(wanted: Wanted) -> Kept:
    """Every wanted row, in the dataset's order."""
    listing, files = Listing(), dict[str, str]()
    written = places.Written(Path(wanted.source))
    of_speaker: Counter[str] = Counter()
    over = left_out = 0
    for number, row in enumerate(_rows(wanted)):
        if wanted.limit is not None and len(listing.found) >= wanted.limit:
            listing.refused.append(Unlisted(wanted.split, Reason.OVER_LIMIT, f"rows from {number} on: the limit is {wanted.limit}"))
            break
        if not all(re.search(pattern, words(row[column]) or "") for column, pattern in wanted.only.items()):
            left_out += 1
            continue
        item = _identified(row, number, wanted)
        if isinstance(item, Unlisted):
            listing.refused.append(item)
            continue
        member, speaker = item
        if wanted.max_per_speaker is not None and of_speaker[speaker] >= wanted.max_per_speaker:
            over += 1
            continue
        if member in files:
            raise CorpusUnavailable(f"{wanted.source}: two rows are known by {member!r}: name other columns under columns.id")
        content = _bytes_of(row[wanted.columns.audio], member, wanted, written)
        if isinstance(content, Unlisted):
            listing.refused.append(content)
            continue
        files[member] = _keep(content)
        of_speaker[speaker] += 1
        sex, language, text = (
            row[column] if column else None for column in (wanted.columns.sex, wanted.columns.language, wanted.columns.text)
        )
        listing.take(member, speaker, sex, language, text)
    if left_out:
        listing.refused.append(Unlisted(wanted.split, Reason.LEFT_OUT, f"not {dict(wanted.only)}", left_out))
    if over:
        listing.refused.append(Unlisted(wanted.split, Reason.OVER_LIMIT, f"more than {wanted.max_per_speaker} of a speaker", over))
    if not listing.found and not listing.refused:
        raise CorpusUnavailable(f"{wanted.source}: the split {wanted.split} has no rows that are wanted")
    return Kept(listing, files)


def _rows(wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Rows with undecoded audio and labels as words."""
    with without_magic(Path(wanted.source)) if wanted.revision is None else nullcontext(wanted.source) as source:
        yield from _rows_of(str(source), wanted)


def _rows_of(source: str, wanted: Wanted) -> Iterator[dict[str, Any]]:
    import datasets  # slow to import, and most builds read no dataset

    if wanted.revision is None:
        _check_metadata(Path(wanted.source))
    try:
        opened = datasets.load_dataset(source, wanted.config, split=wanted.split, revision=wanted.revision, streaming=True)
    except Exception as error:  # the Hub's, fsspec's and pyarrow's own errors share no base class
        raise CorpusUnavailable(f"{wanted.source}: {_first_line(error)}") from error
    if opened.features is None:
        opened = opened._resolve_features()
    names = wanted.columns.model_dump(exclude_none=True)
    needed = {column for name in names.values() for column in ([name] if isinstance(name, str) else name)} | set(wanted.only)
    absent = sorted(needed - set(opened.features))
    if absent:
        raise CorpusUnavailable(f"{wanted.source}: no column {', '.join(absent)}; columns: {', '.join(opened.features)}")
    kind = opened.features[wanted.columns.audio]
    if isinstance(kind, datasets.Audio):
        opened = opened.cast_column(wanted.columns.audio, datasets.Audio(decode=False))
    elif not _is_binary(kind.get("bytes") if isinstance(kind, dict) else kind):
        told = "needed are the bytes of audio files: an Audio column, binary, or a struct with binary under `bytes`"
        raise CorpusUnavailable(f"{wanted.source}: the column {wanted.columns.audio} holds no audio but {_kind(kind)}; {told}")
    words = {name: kind for name, kind in opened.features.items() if isinstance(kind, datasets.ClassLabel)}
    try:
        for rows in opened.with_format("arrow"):  # as Python objects, `datasets` asks for torch
            for row in rows.to_pylist():
                yield {**row, **{name: _label(kind, row[name]) for name, kind in words.items()}}
    except Exception as error:  # as above
        raise CorpusUnavailable(f"{wanted.source}: {_first_line(error)}") from error


def _check_metadata(folder: Path) -> None:
    """Refuse a metadata.csv in which rows are swallowed or of another width: pandas, by which `datasets` reads it, says nothing."""
    faults = [fault for path in sorted(folder.rglob("metadata.csv")) for fault in tables.read(path, ()).told(path)]
    if faults:
        raise CorpusUnavailable(
            "\n  ".join(faults[:MOST_FAULTS]) + (f"\n  and {more} more" if (more := len(faults) - MOST_FAULTS) > 0 else "")
        )


def _is_binary(kind: Any) -> bool:
    """Whether a feature is a column of bytes, as other writers than `datasets` keep encoded audio."""
    return getattr(kind, "dtype", None) in ("binary", "large_binary", "binary_view")


def _kind(feature: Any) -> str:
    """A feature in a word or two, for a message."""
    return f"a struct of {', '.join(feature)}" if isinstance(feature, dict) else str(getattr(feature, "dtype", feature))


def _label(kind: Any, number: int | None) -> str | None:
    """The word of a class label; None where it's unset."""
    return kind.int2str(number) if number is not None and number >= 0 else None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).split(chr(10)) or [''])[0]}"


def _identified(row: Mapping[str, Any], number: int, wanted: Wanted) -> tuple[str, str] | Unlisted:
    """Member and speaker of a row."""
    columns = wanted.columns
    known_by = "/".join(named(row[column]) or "" for column in columns.id) if columns.id else f"{number:07d}"
    member = f"{wanted.split}/{known_by}"
    if not known_by.strip("/"):
        return Unlisted(f"{wanted.split}/{number:07d}", Reason.UNREADABLE, "the row has no identifier")
    speaker = named(row[columns.speaker])
    return (member, speaker) if speaker else Unlisted(member, Reason.NO_SPEAKER, no_speaker(row[columns.speaker]))


def _bytes_of(audio: Any, member: str, wanted: Wanted, written: places.Written) -> bytes | Unlisted:
    """The encoded audio of a row, or why there's none."""
    audio = audio if isinstance(audio, Mapping) else {"bytes": audio}
    path = audio.get("path")
    if audio.get("bytes"):
        return bytes(audio["bytes"])
    if not path or audio.get("bytes") is not None:
        return Unlisted(member, Reason.UNREADABLE, "the row holds no audio")
    if wanted.revision is None:
        path = f"{wanted.source}/{written(os.path.relpath(path, wanted.source))}"
        if not places.lies_in(os.path.realpath(path), places.trees(Path(wanted.source))):
            return Unlisted(member, Reason.OUTSIDE, "its audio file lies outside the dataset")
    import fsspec

    try:
        with fsspec.open(path, "rb") if is_url(path) else Path(path).open("rb") as stream:
            return bytes(stream.read()) or Unlisted(member, Reason.UNREADABLE, "its audio file is empty")
    except OSError as error:
        return Unlisted(member, Reason.UNREADABLE, f"its audio file can't be read: {error.strerror or type(error).__name__}")


def _keep(content: bytes) -> str:
    """Put audio bytes into the cache; returns their SHA-256."""
    name = hashlib.sha256(content).hexdigest()
    if not (audio_path(name).is_file() and sha256_of(audio_path(name)) == name):
        _write(audio_path(name), content)
    return name
