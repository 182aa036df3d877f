"""Is a dataset's folder whole? Its files, how its Parquet is laid out, its card's counts, and that nothing in it tells of the machine.

Every function gives one line for every fault, and nothing where there is none.
"""

from __future__ import annotations

import fnmatch
import hashlib
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from builder import places
from builder.commands import command
from builder.layout import MAX_GROUP_BYTES, MAX_GROUP_ROWS, features, split_of
from builder.words import counted

CARD = "README.md"
PICTURE = "example.png"
"""The picture on the card."""
NO_CARD = (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError)
"""What reading front matter raises that isn't a card's."""
GROUP_SLACK = 1.2
LOCAL_PATH = re.compile(rb"(?<![\w.~/-])(/home/|/root/|/tmp/|/Users/|[A-Za-z]:\\\\)")
MIN_NAME = 4
"""A machine's name shorter than this stands in any text by chance."""
LOCAL_NAMES = ("localhost", "runner", "ubuntu", "debian", "linux", "docker", "macbook")
"""Names of machines that are words as well: they give nobody away."""


def file_faults(root: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Shards that are listed and not there, or there and not listed."""
    listed = {f"data/{item['shard']}.parquet" for item in manifest["shards"]}
    present = {f"data/{name}" for name in places.names(root / "data")}
    yield from (f"{name}: listed in the manifest and not there" for name in sorted(listed - present))
    yield from (f"{name}: there and not listed in the manifest" for name in sorted(present - listed))


def parquet_faults(file: pq.ParquetFile, name: str) -> Iterator[str]:
    """Row groups beyond their limits, a missing page index, audio that was compressed again."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        where = f"{name}: row group {number}"
        if group.num_rows > MAX_GROUP_ROWS or group.total_byte_size > MAX_GROUP_BYTES * GROUP_SLACK:
            limit = f"{MAX_GROUP_ROWS} rows and {MAX_GROUP_BYTES} bytes"
            yield f"{where} has {counted(group.num_rows, 'row')} and {counted(group.total_byte_size, 'byte')}, at most {limit} are allowed"
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
    """A card whose configurations don't hold the manifest's shards, or say another build, other counts or columns.

    `datasets` caches a folder by its card, and takes missing shards for none: a card of another build would give others old rows.
    """
    yield from (f"{CARD}: {fault}: {card_again(root)}" for fault in _card_faults(root, manifest))


def card_again(root: Path) -> str:
    """What to do about a card that isn't this dataset's."""
    return f"run `{command('card', '--dataset', root)}`"


def _card_faults(root: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    try:
        front = front_matter(root)
        configs = {item["config_name"]: item for item in front["configs"]}
        infos = {item["config_name"]: item for item in front["dataset_info"]}
        if set(configs) != set(infos):
            yield f"configs and dataset_info name different configurations: {sorted(set(configs) ^ set(infos))}"
            return
        held = {item["shard"] for config in configs.values() for item in shards_in(config, manifest)}
        columns = features(manifest["recipe"]["sample_rate_hz"])._to_yaml_list()
        for name, config in configs.items():
            yield from _config_faults(name, config, infos[name], columns, manifest)
    except NO_CARD as error:
        yield no_card(error)
        return
    yield from (f"no configuration holds {item['shard']}" for item in manifest["shards"] if item["shard"] not in held)


def _config_faults(
    name: str, config: Mapping[str, Any], info: Mapping[str, Any], columns: Any, manifest: Mapping[str, Any]
) -> Iterator[str]:
    shards = shards_in(config, manifest)
    content = hashlib.sha256("".join(item["parquet_sha256"] for item in shards).encode()).hexdigest()
    if config["version"] != manifest["version"] or content not in config["description"]:
        yield f"configuration {name} is of another build"
    if info["features"] != columns:
        yield f"configuration {name} has other columns than the shards"
    counts: Counter[str] = Counter()
    for item in shards:
        counts[split_of(item["shard"])] += item["n_rows"]
    said = Counter({item["name"]: item["num_examples"] for item in info["splits"]})
    for split in sorted({*said, *counts}):
        if said[split] != counts[split]:
            yield f"configuration {name}, {split}: {counted(said[split], 'row')}, its shards have {counts[split]}"


def front_matter(root: Path) -> dict[str, Any]:
    """The card's YAML; raises one of `NO_CARD`."""
    found: dict[str, Any] = yaml.safe_load(places.text(root / CARD).split("---\n")[1])
    return found


def no_card(error: Exception) -> str:
    """What's wrong with front matter that couldn't be read."""
    said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'empty'}"
    return f"its front matter isn't a card of `vocalgrad` ({said})"


def shards_in(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The manifest's entries of the shards that a card's configuration holds, in order."""
    patterns = [(files["split"], pattern) for files in config["data_files"] for pattern in files["path"] or ()]

    def held(shard: str) -> bool:
        return any(split == split_of(shard) and fnmatch.fnmatchcase(f"data/{shard}.parquet", pattern) for split, pattern in patterns)

    return [item for item in manifest["shards"] if held(item["shard"])]


def local_faults(root: Path) -> Iterator[str]:
    """Text that holds a path or the name of the machine that built it; a shard's text is looked through by `local_in`."""
    for name in places.names(root):
        if name.endswith((".md", ".json")):
            told = local_in(places.content(root / name))
            if told:
                yield f"{name}: holds {told}"


def local_in(content: bytes) -> str | None:
    """What in a text tells of the machine: the beginning of a local path, or the machine's name; None if nothing does."""
    found = LOCAL_PATH.search(content)
    if found:
        return f"a local path ({found.group().decode()}...)"
    name = platform.node().split(".")[0]
    if len(name) >= MIN_NAME and name.lower() not in LOCAL_NAMES and re.search(rb"\b" + re.escape(name.encode()) + rb"\b", content):
        return f"the machine's name ({name})"
    return None
