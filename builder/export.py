"""A dataset as files, for harnesses that don't read Parquet: a folder of FLAC with metadata, tars, or lines of JSON.

    audiofolder   <split>/metadata.parquet, <split>/000/<id>.flac ...         what `datasets` loads as "audiofolder" (with torch)
    jsonl         <split>.jsonl, whose `audio` is a path under audio/<split>/000/
    webdataset    <split>-000000.tar ... of <id>.flac beside <id>.json

FLAC bytes are the published ones, checked by their checksum. Of a row's columns all are there but the contours and the plan, which
are long. (An audiofolder's metadata is Parquet because `datasets` guesses the types of JSON and CSV anew for each split, and refuses the
folder where a column is empty in one of them.) Everything is written under another name and renamed when it's whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builder.errors import DatasetInvalid, NotFound, VocalgradError
from builder.layout import features, read_manifest, read_rows, split_of
from builder.release import shards_of
from builder.words import unknown

LONG = ("audio", "plan", "contour_time_s", "contour_value", "contour_sham")
FOLDER_CLIPS = 5_000
"""Clips in one folder; the Hub and many file systems want fewer than 10,000 files there."""
TAR_BYTES = 1_000_000_000

Rows = Iterator[Mapping[str, Any]]


def export(root: Path, to: Path, form: str, config: str, split: str | None) -> dict[str, int]:
    """Write clips and their metadata as files.

    Parameters
    ----------
    root
        The dataset.
    to
        The folder to make; it mustn't be there.
    form
        One of `FORMS`.
    config, split
        What to write: a configuration of the dataset's card; a split of it, or None for all.

    Returns
    -------
    dict
        Clips written, by split.

    Raises
    ------
    NotFound
        The dataset has no such configuration or split.
    DatasetInvalid
        A clip's bytes aren't what its row says.
    VocalgradError
        `to` exists.
    """
    if to.exists() or to.is_symlink():
        raise VocalgradError(f"{to} exists: give a folder that doesn't with --to, or remove it")
    shards = _chosen(root, config, split)
    partial = to.with_name(f".{to.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        counts = {name: FORMS[form](_rows(root, shards[name]), partial, name) for name in shards}
        partial.rename(to)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return counts


def _chosen(root: Path, config: str, split: str | None) -> dict[str, list[str]]:
    """Shards by split."""
    configs = shards_of(root, read_manifest(root))
    if config not in configs:
        raise NotFound(f"{root}: {unknown('configuration', config, list(configs))}")
    found: dict[str, list[str]] = {}
    for name in configs[config]:
        found.setdefault(split_of(name), []).append(name)
    if split is not None and split not in found:
        raise NotFound(f"{root}, configuration {config}: {unknown('split', split, list(found))}")
    return found if split is None else {split: found[split]}


def _rows(root: Path, shards: list[str]) -> Rows:
    for name in shards:
        for row in read_rows(root, name):
            if hashlib.sha256(row["audio"]["bytes"]).hexdigest() != row["audio_sha256"]:
                raise DatasetInvalid(f"{name}: clip {row['id']}: its bytes aren't what the row says: build the dataset again")
            yield row


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in LONG}


def _line(row: Mapping[str, Any], **more: str) -> str:
    return json.dumps({**more, **_short(row)}, ensure_ascii=False, allow_nan=False)


def _clip(row: Mapping[str, Any], number: int, folder: Path) -> str:
    """Write a clip; returns its path under `folder`."""
    path = folder / f"{number // FOLDER_CLIPS:03d}" / f"{row['id']}.flac"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(row["audio"]["bytes"])
    return path.relative_to(folder).as_posix()


def _audiofolder(rows: Rows, to: Path, split: str) -> int:
    kept = [field for field in features(1).arrow_schema.remove_metadata() if field.name not in LONG]
    schema = pa.schema([pa.field("file_name", pa.string()), *kept])
    (to / split).mkdir()
    listed = [{"file_name": _clip(row, number, to / split), **_short(row)} for number, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(listed, schema=schema), to / split / "metadata.parquet")
    return len(listed)


def _jsonl(rows: Rows, to: Path, split: str) -> int:
    number = -1
    with (to / f"{split}.jsonl").open("w", encoding="utf-8") as stream:
        for number, row in enumerate(rows):
            stream.write(_line(row, audio=f"audio/{split}/{_clip(row, number, to / 'audio' / split)}") + "\n")
    return number + 1


def _webdataset(rows: Rows, to: Path, split: str) -> int:
    n_clips, n_tars, size = 0, 0, 0
    with ExitStack() as stack:
        for row in rows:
            members = {f"{row['id']}.flac": row["audio"]["bytes"], f"{row['id']}.json": _line(row).encode()}
            needed = sum(tarfile.BLOCKSIZE * (1 - (-len(content) // tarfile.BLOCKSIZE)) for content in members.values())
            if n_tars == 0 or size + needed > TAR_BYTES - tarfile.RECORDSIZE:
                stack.close()
                tar = stack.enter_context(tarfile.open(to / f"{split}-{n_tars:06d}.tar", "w", format=tarfile.USTAR_FORMAT))
                n_tars, size = n_tars + 1, 0
            for name, content in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            size += needed
            n_clips += 1
    return n_clips


FORMS: Mapping[str, Callable[[Rows, Path, str], int]] = {"audiofolder": _audiofolder, "webdataset": _webdataset, "jsonl": _jsonl}
"""How a split's rows are written into a folder, by name; each returns how many there were."""
