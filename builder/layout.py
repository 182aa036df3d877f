"""What a dataset folder looks like: its columns, its paths, its limits, and how files come into it.

    <dataset>/README.md  example.png  croissant.json  manifest.json  ATTRIBUTION.md
              data/<dimension>/<split>-00000-of-00001.parquet
              data/controls/<dimension>-<split>-00000-of-00001.parquet
              reports/<dimension>/<split>-00000-of-00001.json
              audit/audit.json  audit/report.html  audit/*.png      once it was audited

Files are written under a temporary name, synced, and renamed; in an object store, made on this machine and sent whole.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Audio, ClassLabel, Features, List, Value
from pydantic import BaseModel, Field, ValidationError

from builder import places
from builder.commands import command
from builder.dimensions import MEASURES
from builder.errors import DatasetInvalid, DiskFull, NotFound
from builder.records import Direction, ShardPlan

MAX_GROUP_ROWS = 100
MAX_GROUP_BYTES = 5_000_000
CHUNKING = {"min_chunk_size": 256 * 1024, "max_chunk_size": 1024 * 1024, "norm_level": 0}

LIST = {"_type": "Sequence"}
"""What a list is called in a file, for `datasets` before 4.0, which don't know `List`; later ones take it for one."""


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
            "witness_effect": number,
            "leak_jnd": dict.fromkeys(MEASURES, number),
            "contour_time_s": List(Value("float32")),
            "contour_value": List(Value("float32")),
            "contour_sham": List(Value("float32")),
            "label_basis": text,
            "plan": text,
            "audio_sha256": text,
            "licence": text,
            "attribution": text,
            "paper_category": text,
        }
    )


def schema(sample_rate_hz: int) -> pa.Schema:
    """The columns as Parquet has them, with the metadata that `datasets` reads features from."""
    found = features(sample_rate_hz).arrow_schema
    told = json.loads(found.metadata[b"huggingface"], object_hook=lambda node: node | LIST if node.get("_type") == "List" else node)
    return found.with_metadata({"huggingface": json.dumps(told)})


def split_of(shard_name: str) -> str:
    """Split of a shard by its name, such as `pitch/test-00000-of-00001` or `controls/pitch-test-00000-of-00001`."""
    return shard_name.rsplit("/", 1)[1].split("-")[-4]


def parquet_path(root: Path, planned: ShardPlan) -> Path:
    """Where a shard's rows lie in a dataset."""
    return root / "data" / f"{planned.name}.parquet"


def report_path(root: Path, planned: ShardPlan) -> Path:
    """Where a shard's report lies in a dataset."""
    return root / "reports" / f"{planned.name}.json"


def read_manifest(root: Path) -> dict[str, Any]:
    """The manifest of a built dataset: of its folder, or the file itself.

    Raises
    ------
    NotFound
        There is none at `root`.
    DatasetInvalid
        There is one, and it's damaged.
    """
    path = root if not places.is_remote(root) and root.is_file() else root / "manifest.json"
    try:
        found = json.loads(places.text(path))
    except OSError as error:
        told = f"build one there with `{command('build', '--out', root)}`, or name its folder with --dataset"
        raise NotFound(f"no dataset at {root}: {told}") from error
    except ValueError as error:
        raise DatasetInvalid(f"{path} is damaged: {error}; build the dataset again") from error
    try:
        _Manifest.model_validate(found)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "all of it"
        raise DatasetInvalid(f"{path} is damaged: {where} isn't there, or isn't what a build writes; build the dataset again") from error
    manifest: dict[str, Any] = found
    return manifest


class _ListedRecipe(BaseModel):
    """What every command needs of a manifest's recipe."""

    sample_rate_hz: int
    dimensions: list[dict[str, Any]]


class _ListedShard(BaseModel):
    """What every command needs of a manifest's shard."""

    shard: Annotated[str, Field(pattern=r"^(\w+/|controls/\w+-)\w+-\d{5}-of-\d{5}$")]
    parquet_sha256: str
    n_rows: int


class _Manifest(BaseModel):
    """What every command needs of a manifest."""

    recipe: _ListedRecipe
    shards: list[_ListedShard]
    cells: list[dict[str, Any]]


def read_rows(root: Path, shard_name: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Rows of one shard.

    Raises
    ------
    DatasetInvalid
        The shard is gone or can't be read.
    """
    path = root / "data" / f"{shard_name}.parquet"
    try:
        with places.opened(path, parts=columns is not None and "audio" not in columns) as stream:
            rows: list[dict[str, Any]] = pq.read_table(stream, columns=columns).to_pylist()
    except (OSError, ValueError) as error:
        raise DatasetInvalid(f"{path} can't be read: {str(error).splitlines()[0]}; build the dataset again") from error
    return rows


@contextmanager
def temporary_for(path: Path) -> Iterator[Path]:
    """A hidden name beside `path` to write to, its folder made, or a name on this machine if that's in an object store.

    Nothing is left under it afterwards.

    Raises
    ------
    DiskFull
        There was no space.
    """
    here = Path(tempfile.mkdtemp(prefix="vocalgrad-")) / path.name if places.is_remote(path) else path
    temporary = here.with_name(f".{here.name}.{uuid4().hex[:12]}")  # containers that share a disk also share numbers of processes
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(here) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
        if here is not path:
            here.parent.rmdir()


def is_temporary(path: Path) -> bool:
    """Whether a file has the name of one that was being written."""
    return path.name.startswith(".")


def clear_temporary(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder and below; an object store holds nothing half-written."""
    for path in () if places.is_remote(folder) else folder.rglob(".*"):
        path.unlink(missing_ok=True)


def publish_file(temporary: Path, path: Path) -> str:
    """Sync a finished temporary file, rename it into place (or send it), sync its folder, and return its SHA-256."""
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    if places.is_remote(path):
        places.put(temporary, path)
        return checksum
    temporary.replace(path)
    places.sync_folder(path.parent)
    return checksum


def copy_file(source: Path, path: Path) -> None:
    """Copy a file under a temporary name, synced and renamed; inside an object store, by the store."""
    if places.is_remote(source):
        places.copy(source, path)
        return
    with temporary_for(path) as temporary:
        shutil.copyfile(source, temporary)
        publish_file(temporary, path)


def write_json(value: Any, path: Path) -> None:
    """Write strict JSON, keys in the order given; `nan` and infinities, which JSON doesn't have, as null: no value."""
    write_text(json.dumps(_without_nan(value), ensure_ascii=False, allow_nan=False, indent=1) + "\n", path)


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def write_text(text: str, path: Path) -> None:
    """Write UTF-8 text under a temporary name, synced and renamed."""
    with temporary_for(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        publish_file(temporary, path)
