"""Labelled rows to Parquet with FLAC inside, plus checksums.

The layout follows what the Hub's viewer and its storage ask for: audio leaves uncompressed and PLAIN (FLAC doesn't compress
further, and stable bytes make re-uploads small), at most 100 rows and 5 MB per row group, page index, content-defined
chunking.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from builder.layout import CHUNKING, MAX_GROUP_BYTES, MAX_GROUP_ROWS, publish_file, schema, temporary_for
from builder.records import Direction


def _leaves(columns: pa.Schema) -> list[str]:
    """Parquet's names of all leaf columns."""

    def walk(name: str, kind: pa.DataType) -> Iterator[str]:
        if pa.types.is_struct(kind):
            for inner in kind:
                yield from walk(f"{name}.{inner.name}", inner.type)
        elif pa.types.is_list(kind):
            yield f"{name}.list.element"
        else:
            yield name

    return [leaf for column in columns for leaf in walk(column.name, column.type)]


def _groups(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
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
    DiskFull
        There was no space; nothing half-written is left.
    ValueError
        There are no rows: an empty shard is never a success.
    """
    listed = [{**row, "direction": _direction_index(row["direction"])} for row in rows]
    if not listed:
        raise ValueError(f"{path.name}: a shard needs at least one row")
    columns = schema(sample_rate_hz)
    leaves = _leaves(columns)
    raw = [leaf for leaf in leaves if leaf.startswith("audio.")]
    with temporary_for(path) as temporary:
        with pq.ParquetWriter(
            temporary,
            columns,
            compression={leaf: "none" if leaf in raw else "snappy" for leaf in leaves},
            use_dictionary=[leaf for leaf in leaves if leaf not in raw],
            column_encoding=dict.fromkeys(raw, "PLAIN"),
            write_page_index=True,
            use_content_defined_chunking=CHUNKING,
        ) as writer:
            for group in _groups(listed):
                writer.write_table(pa.Table.from_pylist(list(group), schema=columns).combine_chunks())
            writer.add_key_value_metadata({"content_defined_chunking": json.dumps(CHUNKING)})
        return publish_file(temporary, path)


def _direction_index(name: str | None) -> int | None:
    return None if name is None else [direction.value for direction in Direction].index(name)
