"""Labelled rows to Parquet with FLAC inside, plus checksums.

The layout follows what the Hub's viewer and its storage ask for: audio leaves uncompressed and PLAIN (FLAC doesn't compress
further, and stable bytes make re-uploads small), at most 100 rows and 5 MB per row group, page index, content-defined
chunking. Files are written under a temporary name, synced, and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Audio, ClassLabel, Features, List, Value

from builder.dimensions import DIMENSIONS
from builder.records import Direction

MAX_GROUP_ROWS = 100
MAX_GROUP_BYTES = 5_000_000
CHUNKING = {"min_chunk_size": 256 * 1024, "max_chunk_size": 1024 * 1024, "norm_level": 0}


def features(sample_rate_hz: int) -> Features:
    """Columns of every configuration and split, in order."""
    text, number = Value("string"), Value("float64")
    return Features(
        {
            "id": text,
            "audio": Audio(sampling_rate=sample_rate_hz),
            "question": text,
            "choices": List(text),
            "answer": text,
            "answer_index": Value("int64"),
            "direction": ClassLabel(names=[direction.value for direction in Direction]),
            "dimension": text,
            "tier": text,
            "curve": text,
            "pair_id": text,
            "source_kind": text,
            "source_id": text,
            "speaker_id": text,
            "language": text,
            "text": text,
            "duration_s": number,
            "active_start_s": number,
            "active_end_s": number,
            "span": number,
            "unit": text,
            "effect": number,
            "effect_jnd": number,
            "rank_correlation": number,
            "salience": number,
            "difference_gain": number,
            "difference_r_squared": number,
            "witness": text,
            "leak_jnd": {dimension.name: number for dimension in DIMENSIONS},
            "contour_time_s": List(Value("float32")),
            "contour_value": List(Value("float32")),
            "label_basis": text,
            "plan": text,
            "audio_sha256": text,
            "licence": text,
            "attribution": text,
            "paper_category": text,
        }
    )


def _leaves(schema: pa.Schema) -> list[str]:
    """Parquet's names of all leaf columns."""

    def walk(name: str, kind: pa.DataType) -> Iterator[str]:
        if pa.types.is_struct(kind):
            for inner in kind:
                yield from walk(f"{name}.{inner.name}", inner.type)
        elif pa.types.is_list(kind):
            yield f"{name}.list.element"
        else:
            yield name

    return [leaf for column in schema for leaf in walk(column.name, column.type)]


def _groups(rows: list[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    group: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        size += len(row["audio"]["bytes"]) + 8 * len(row["contour_value"])
        if group and (len(group) == MAX_GROUP_ROWS or size > MAX_GROUP_BYTES):
            yield group
            group, size = [], len(row["audio"]["bytes"]) + 8 * len(row["contour_value"])
        group.append(row)
    if group:
        yield group


def write(rows: Iterable[Mapping[str, Any]], path: Path, sample_rate_hz: int) -> str:
    """Write one shard.

    Parameters
    ----------
    rows
        As `features`, `direction` by name; their order is kept.
    path
        The Parquet file; its folder is made.

    Returns
    -------
    str
        SHA-256 of the file, hexadecimal.

    Raises
    ------
    ValueError
        There are no rows: an empty shard is never a success.
    """
    listed = [{**row, "direction": _direction_index(row["direction"])} for row in rows]
    if not listed:
        raise ValueError(f"{path.name}: a shard needs at least one row")
    schema = features(sample_rate_hz).arrow_schema
    leaves = _leaves(schema)
    raw = [leaf for leaf in leaves if leaf.startswith("audio.")]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pq.ParquetWriter(
            temporary,
            schema,
            compression={leaf: "none" if leaf in raw else "snappy" for leaf in leaves},
            use_dictionary=[leaf for leaf in leaves if leaf not in raw],
            column_encoding=dict.fromkeys(raw, "PLAIN"),
            write_page_index=True,
            use_content_defined_chunking=CHUNKING,
        ) as writer:
            for group in _groups(listed):
                writer.write_table(pa.Table.from_pylist(list(group), schema=schema).combine_chunks())
            writer.add_key_value_metadata({"content_defined_chunking": json.dumps(CHUNKING)})
        return publish_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _direction_index(name: str | None) -> int | None:
    return None if name is None else [direction.value for direction in Direction].index(name)


def publish_file(temporary: Path, path: Path) -> str:
    """Sync a finished temporary file, rename it into place, and return its SHA-256."""
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    os.replace(temporary, path)
    return checksum


def write_json(value: Any, path: Path) -> None:
    """Write JSON under a temporary name, synced and renamed; keys in the order given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    publish_file(temporary, path)
