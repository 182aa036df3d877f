"""Is a dataset's folder whole? Its files, how its Parquet is laid out, its card's counts, and that nothing in it tells of the machine.

Every function gives one line for every fault, and nothing where there is none.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from builder.layout import MAX_GROUP_BYTES, MAX_GROUP_ROWS, features, split_of

GROUP_SLACK = 1.2
LOCAL_PATH = re.compile(rb"(?<![\w.~/-])(/home/|/root/|/tmp/|/Users/|[A-Za-z]:\\\\)")
MIN_NAME = 4
"""A machine's name shorter than this stands in any text by chance."""
LOCAL_NAMES = ("localhost", "runner", "ubuntu", "debian", "linux", "docker", "macbook")
"""Names of machines that are words as well: they give nobody away."""


def file_faults(root: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Shards that are listed and not there, or there and not listed."""
    listed = {f"data/{item['shard']}.parquet" for item in manifest["shards"]}
    present = {path.relative_to(root).as_posix() for path in root.glob("data/**/*") if path.is_file()}
    yield from (f"{name}: listed in the manifest and not there" for name in sorted(listed - present))
    yield from (f"{name}: there and not listed in the manifest" for name in sorted(present - listed))


def parquet_faults(file: pq.ParquetFile, name: str) -> Iterator[str]:
    """Row groups beyond their limits, a missing page index, audio that was compressed again."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        where = f"{name}: row group {number}"
        if group.num_rows > MAX_GROUP_ROWS or group.total_byte_size > MAX_GROUP_BYTES * GROUP_SLACK:
            limit = f"{MAX_GROUP_ROWS} rows and {MAX_GROUP_BYTES} bytes"
            yield f"{where} has {group.num_rows} rows and {group.total_byte_size} bytes, at most {limit} are allowed"
        columns = [group.column(index) for index in range(group.num_columns)]
        bare = [column.path_in_schema for column in columns if not column.has_offset_index]
        if bare:
            yield f"{where} has no page index for {', '.join(bare[:3])}{', ...' if len(bare) > 3 else ''}: viewers would read all of it"
        packed = [
            column.path_in_schema for column in columns if column.path_in_schema == "audio.bytes" and column.compression != "UNCOMPRESSED"
        ]
        if packed:
            yield f"{where}: audio.bytes is compressed once more; FLAC doesn't shrink, and an upload can't find what it has already"


def card_faults(root: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """A card whose configurations don't hold the manifest's shards, or say other counts or columns."""
    try:
        front = yaml.safe_load((root / "README.md").read_text(encoding="utf-8").split("---\n")[1])
        configs = {item["config_name"]: item["data_files"] for item in front["configs"]}
        infos = {item["config_name"]: item for item in front["dataset_info"]}
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        yield f"README.md: its configurations can't be read ({type(error).__name__}); write it again with `vocalgrad card`"
        return
    if set(configs) != set(infos):
        yield f"README.md: configs and dataset_info name different configurations: {sorted(set(configs) ^ set(infos))}"
        return
    rows = {f"data/{item['shard']}.parquet": item["n_rows"] for item in manifest["shards"]}
    columns = features(manifest["recipe"]["sample_rate_hz"])._to_yaml_list()
    found: set[str] = set()
    for name, files in configs.items():
        if infos[name]["features"] != columns:
            yield f"README.md: {name}: other columns than the shards have"
        said = {item["name"]: item["num_examples"] for item in infos[name]["splits"]}
        for part in files:
            mine = [path for path in rows for pattern in part["path"] or () if Path(path).match(pattern)]
            mine = [path for path in mine if split_of(path.removesuffix(".parquet")) == part["split"]]
            found |= set(mine)
            total = sum(rows[path] for path in mine)
            if said.get(part["split"]) != total:
                yield f"README.md: {name} x {part['split']}: {said.get(part['split'])} rows, the manifest's shards have {total}"
    yield from (f"README.md: no configuration holds {path}" for path in sorted(set(rows) - found))


def local_faults(root: Path) -> Iterator[str]:
    """Text that holds a path or the name of the machine that built it; a shard's text is looked through by `local_in`."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in (".md", ".json"):
            told = local_in(path.read_bytes())
            if told:
                yield f"{path.relative_to(root)}: holds {told}"


def local_in(content: bytes) -> str | None:
    """What in a text tells of the machine: the beginning of a local path, or the machine's name; None if nothing does."""
    found = LOCAL_PATH.search(content)
    if found:
        return f"a local path ({found.group().decode()}...)"
    name = platform.node().split(".")[0]
    if len(name) >= MIN_NAME and name.lower() not in LOCAL_NAMES and re.search(rb"\b" + re.escape(name.encode()) + rb"\b", content):
        return f"the machine's name ({name})"
    return None
