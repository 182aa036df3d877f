"""Does `croissant.json` describe this dataset? What mlcroissant lets pass, and tools then stumble over, is looked for here.

mlcroissant takes a file without a name, an address, a licence or records, with columns that no shard has, and with any checksum.
Every function gives one line for every fault, and nothing where there is none.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from datasets import Audio, List

from builder import places
from builder.columns import files_of, type_of
from builder.croissant import CONFORMS_TO, CONTEXT, CROISSANT, REPO, SPLITS, content_name, is_day
from builder.folder import NO_CARD, card_again, front_matter, shards_in
from builder.layout import features, split_of
from builder.words import counted

REQUIRED = (
    "@type", "name", "description", "url", "version", "license", "creator", "citeAs", "distribution", "recordSet", "rai:dataCollection",
    "rai:dataLimitations", "rai:dataBiases", "rai:personalSensitiveInformation", "rai:dataUseCases", "rai:dataSocialImpact",
    "rai:hasSyntheticData", "rai:dataReleaseMaintenancePlan", "prov:wasDerivedFrom", "prov:wasGeneratedBy",
)  # fmt: skip
"""What Croissant's specification asks of a dataset, and conferences of its fields of responsible AI; the date comes with publication."""
NAME = re.compile(r"[\w][\w ./-]*")
Node = Mapping[str, Any]


def faults(root: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Every fault of a dataset's `croissant.json`, compared with its manifest and its card.

    A card that can't be read is told by `folder.card_faults`; then configurations aren't compared.
    """
    try:
        described = json.loads(places.text(root / CROISSANT))
    except (OSError, ValueError) as error:
        yield f"{CROISSANT}: can't be read ({type(error).__name__}): {card_again(root)}"
        return
    try:
        found = [*_whole(described), *_names(described), *_of_this_build(root, described, manifest), *_records(root, described, manifest)]
    except (LookupError, TypeError, AttributeError, ValueError, re.error) as error:
        found = [f"it isn't a description by `vocalgrad` ({type(error).__name__}: {error})"]
    yield from (f"{CROISSANT}: {fault}: {card_again(root)}" for fault in found)


def _whole(described: Node) -> Iterator[str]:
    """Fields that are missing or empty, a context without a vocabulary that is used, other specifications than ours."""
    for key in REQUIRED:
        value = described.get(key)
        if value is None or (hasattr(value, "__len__") and not _said(value)):
            yield f"{key} is missing or empty"
    for prefix in ("sc", "cr", "dct", "rai", "prov"):
        if described["@context"].get(prefix) != CONTEXT[prefix]:
            yield f"@context doesn't say that {prefix} is {CONTEXT[prefix]}"
    missing = [spec for spec in CONFORMS_TO if spec not in described.get("conformsTo", [])]
    yield from (f"conformsTo lacks {spec}" for spec in missing)
    if "datePublished" in described and not is_day(described["datePublished"]):
        yield f"datePublished {described['datePublished']!r} isn't a day"


def _said(value: Any) -> bool:
    """Whether a text, or every item of a list, says something."""
    if isinstance(value, str):
        return bool(value.strip())
    return len(value) > 0 and (not isinstance(value, list) or all(item and (not isinstance(item, str) or item.strip()) for item in value))


def _nodes(value: Any) -> Iterator[Node]:
    """Every object of a document, outermost first; not its context and not its inline records."""
    if isinstance(value, dict):
        yield value
        for key, inner in value.items():
            if key not in ("@context", "data"):
                yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)


def _names(described: Node) -> Iterator[str]:
    """Identifiers that are there twice or nowhere; names that are missing, bad, or the same beside each other."""
    nodes = list(_nodes(described))
    made = Counter(node["@id"] for node in nodes if "@id" in node and len(node) > 1)
    yield from (f"@id {name} is there {counted(count, 'time')}" for name, count in made.items() if count > 1)
    pointed = {node["@id"] for node in nodes if set(node) == {"@id"}}
    yield from (f"nothing has the @id {name} that is pointed to" for name in sorted(pointed - set(made)))
    for node in nodes:
        for key in ("distribution", "recordSet", "field", "subField"):
            if isinstance(node.get(key), list):  # a reference's `field` is a pointer
                yield from _sibling_faults(node.get("@id", "the dataset"), node[key])


def _sibling_faults(where: str, siblings: Sequence[Node]) -> Iterator[str]:
    names = Counter(str(node.get("name")) for node in siblings)
    yield from (f"{where}: the name {name} is there {counted(count, 'time')}" for name, count in names.items() if count > 1)
    for node in siblings:
        if not NAME.fullmatch(str(node.get("name", ""))):
            yield f"{node.get('@id', where)}: {node.get('name')!r} can't be a name"
        if not str(node.get("description", "")).strip():
            yield f"{node.get('@id', where)}: no description"


def _of_this_build(root: Path, described: Node, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Another release, or files whose checksums or places aren't the manifest's."""
    if described.get("version") != manifest["release"]:
        yield f"version {described.get('version')} isn't the manifest's {manifest['release']}"
    checksum = hashlib.sha256(places.content(root / "manifest.json")).hexdigest()
    url = str(described.get("url"))
    if not urlsplit(url).netloc and url != content_name(checksum):
        yield f"url {url} names no page, and isn't the name of this manifest.json"
    files = {node["@id"]: node for node in described.get("distribution", []) if node["@type"] == "cr:FileObject"}
    wanted = {REPO: checksum, **{f"data/{item['shard']}.parquet": item["parquet_sha256"] for item in manifest["shards"]}}
    yield from (f"{name}: not a file of this dataset" for name in files if name not in wanted)
    for name, sha256 in wanted.items():
        if name not in files:
            yield f"{name}: not described"
        elif files[name].get("sha256") != sha256:
            yield f"{name}: the checksum isn't the manifest's"
        if name in files and not _is_place(files[name].get("contentUrl"), name, url):
            yield f"{name}: contentUrl {files[name].get('contentUrl')!r} isn't its place in the dataset"


def _is_place(content_url: Any, name: str, url: str) -> bool:
    return content_url == name or (name == REPO and content_url == (url if urlsplit(url).netloc else "."))


def _records(root: Path, described: Node, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Configurations, splits and columns that aren't those of the card, the manifest and the shards."""
    sets = {node["@id"]: node for node in described.get("recordSet", [])}
    splits = {cell["split"] for cell in manifest["cells"]}
    said = {record.get(f"{SPLITS}/name") for record in sets.get(SPLITS, {}).get("data", [])}
    if said != splits:
        yield f"splits are {sorted(map(str, said))}, the manifest has {sorted(splits)}"
    try:
        configs = {config["config_name"]: config for config in front_matter(root)["configs"]}
    except NO_CARD:
        return
    yield from (f"no record set for the configuration {name}" for name in configs if name not in sets)
    yield from (f"record set {name}: no such configuration" for name in sets if name not in configs and name != SPLITS)
    file_sets = {node["@id"]: node for node in described["distribution"] if node["@type"] == "cr:FileSet"}
    for name, config in configs.items():
        if name in sets:
            yield from _file_set_faults(name, config, file_sets.get(files_of(name), {}), manifest)
            yield from _split_faults(name, sets[name], [item["shard"] for item in shards_in(config, manifest)])
            yield from _column_faults(name, sets[name], manifest["recipe"]["sample_rate_hz"])


def _file_set_faults(name: str, config: Mapping[str, Any], files: Node, manifest: Mapping[str, Any]) -> Iterator[str]:
    wanted = {f"data/{item['shard']}.parquet" for item in shards_in(config, manifest)}
    every = [f"data/{item['shard']}.parquet" for item in manifest["shards"]]
    held = {path for path in every if any(fnmatch.fnmatchcase(path, pattern) for pattern in files.get("includes", []))}
    if held != wanted:
        yield f"{files_of(name)}: includes other shards than the configuration: {', '.join(sorted(held ^ wanted)[:3])}"


def _split_faults(config: str, record_set: Node, shards: Sequence[str]) -> Iterator[str]:
    """Shards of which the field `split` would tell another split than theirs."""
    for field in record_set.get("field", []):
        if field.get("name") == "split":
            pattern = re.compile(field["source"]["transform"]["regex"])
            for shard in shards:
                found = pattern.match(f"data/{shard}.parquet")
                if found is None or found[1] != split_of(shard):
                    yield f"{config}/split: it tells {found and found[1]} of {shard}"


def _column_faults(config: str, record_set: Node, sample_rate_hz: int) -> Iterator[str]:
    """Columns that aren't described, that no shard has, or that are read as something else."""
    columns = features(sample_rate_hz)
    fields = {node.get("name"): node for node in record_set.get("field", [])}
    yield from (f"{config}: column {name} isn't described" for name in ("split", *columns) if name not in fields)
    for name, field in fields.items():
        if name == "split":
            continue
        if name not in columns:
            yield f"{config}/{name}: no such column"
        elif isinstance(columns[name], dict):
            inner = {node.get("name"): node for node in field.get("subField", [])}
            yield from (f"{config}/{name}: part {part} isn't described" for part in columns[name] if part not in inner)
            for part, node in inner.items():
                yield from _field_faults(config, name, node, columns[name].get(part), part)
        else:
            yield from _field_faults(config, name, field, columns[name], "bytes" if isinstance(columns[name], Audio) else None)


def _field_faults(config: str, column: str, field: Node, kind: Any, part: str | None) -> Iterator[str]:
    where = field.get("@id")
    if kind is None:
        yield f"{where}: no such part of the column"
        return
    source = field.get("source", {})
    if field.get("dataType") != type_of(kind) or bool(field.get("isArray")) != isinstance(kind, List):
        yield f"{where}: its type isn't the column's"
    read = (source.get("fileSet", {}).get("@id"), source.get("extract"), source.get("transform", {}).get("jsonPath"))
    if read != (files_of(config), {"column": column}, part):
        yield f"{where}: it isn't read from the column {column} of {files_of(config)}"
    if isinstance(kind, Audio) and field.get("encodingFormat") != "audio/flac":
        yield f"{where}: encodingFormat isn't audio/flac"
