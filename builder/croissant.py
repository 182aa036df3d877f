"""`croissant.json`: a dataset described for machines, after Croissant 1.1 with its fields of responsible AI.

`mlcroissant.Dataset("croissant.json", mapping={"repo": folder})` reads the records of a built folder offline. The Hub writes a file
of its own from the Parquet, but takes none of the fields that say what is in it, what it leans to and whose voices it holds.

A build doesn't know where it'll be published, nor when. So a dataset is named by its content until somebody says an address: `url` is
the name of `manifest.json` by its SHA-256 (RFC 6920), which lists the checksums of all shards; and no date is given.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from builder import licences, places, responsible
from builder.columns import described, files_of
from builder.errors import VocalgradError
from builder.folder import front_matter, shards_in
from builder.layout import features, split_of, write_json
from builder.words import counted

CROISSANT = "croissant.json"
REPO, SPLITS = "repo", "splits"
CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
PARQUET = "application/x-parquet"
CREATOR = "The vocalgrad authors"
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject", "fileProperty",
            "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet",
            "references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}  # fmt: skip
"""The context that the specification gives, and PROV's."""
SPLIT_PATTERN = r"^(?:.*[/-])?({})(?:-\d+-of-\d+\.parquet)?$"
"""The split in a shard's path; a split's own name matches too, as mlcroissant transforms a value twice."""
SPLIT_CLASSES = {"train": "cr:TrainingSplit", "validation": "cr:ValidationSplit", "test": "cr:TestSplit"}


def write(root: Path, manifest: Mapping[str, Any], url: str | None = None, published: str | None = None) -> None:
    """Write `croissant.json` of a dataset whose shards, manifest and card are in place.

    Parameters
    ----------
    root, manifest
        The dataset.
    url
        Address of the page where it's published, such as its page on the Hub; None while there is none.
    published
        Day of its publication, as 2026-01-31; None while it isn't published.

    Raises
    ------
    VocalgradError
        `url` isn't an address of the web, or `published` isn't a day.
    """
    if url is not None and not _is_address(url):
        raise VocalgradError(f"{url!r} isn't the address of a page, such as https://huggingface.co/datasets/my-org/vocalgrad")
    if published is not None and not is_day(published):
        raise VocalgradError(f"{published!r} isn't a day, such as 2026-01-31")
    found = responsible.facts(root, manifest)
    configs = front_matter(root)["configs"]
    checksum = hashlib.sha256(places.content(root / "manifest.json")).hexdigest()
    splits = list(dict.fromkeys(cell["split"] for cell in manifest["cells"]))
    dated = {} if published is None else {"datePublished": published}
    content = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": manifest["name"],
        "description": _about(manifest, found),
        "url": url or content_name(checksum),
        **dated,
        "version": manifest["release"],
        "license": _licences(manifest),
        "creator": {"@type": "sc:Organization", "name": CREATOR},
        "citeAs": _citation(manifest, url, published),
        "keywords": ["audio", "psychoacoustics", "auditory perception", "benchmark", *_swept(manifest)],
        "inLanguage": sorted({"en", *found.languages} - {"not told"}),
        "isLiveDataset": False,
        **responsible.fields(manifest, found),
        "distribution": [_repo(url, checksum), *_shards(root, manifest), *(_file_set(config) for config in configs)],
        "recordSet": [_splits(splits), *(_record_set(config, manifest, splits) for config in configs)],
    }
    write_json(content, root / CROISSANT)


def content_name(sha256: str) -> str:
    """The name of something by its SHA-256 (RFC 6920)."""
    return "ni:///sha-256;" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")


def is_day(text: Any) -> bool:
    """Whether it's a day of the calendar as ISO 8601 has it, with dashes."""
    try:
        return bool(datetime.date.fromisoformat(text).isoformat() == text)
    except (TypeError, ValueError):
        return False


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and bool(parts.netloc) and not any(letter.isspace() for letter in url)


def _swept(manifest: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(cell["dimension"] for cell in manifest["cells"]))


def _about(manifest: Mapping[str, Any], found: responsible.Facts) -> str:
    return (
        "Short sounds in which one audible property rises or falls, with the question whether it does the one or the other. The label "
        f"is measured in the samples that are published. {counted(found.n_clips, 'clip')}, {found.n_controls} of them flat controls "
        f"without a direction; properties: {', '.join(_swept(manifest))}."
    )


def _licences(manifest: Mapping[str, Any]) -> list[Any]:
    """Addresses of what the dataset is under: what the recipe declares, else the licences of the rows."""
    declared = str(manifest["recipe"]["licence"])
    stated = {name: told["text"] for name, told in manifest["sources"]["licences"].items()}
    known = {**{name: licence.text for name, licence in licences.KNOWN.items()}, **stated}
    used = stated if declared == licences.MIXED else {declared: known.get(declared, "terms as the recipe of the corpus states them")}
    return [
        text if _is_address(text) else {"@type": "sc:CreativeWork", "name": name, "description": text}
        for name, text in sorted(used.items())
    ]


def _citation(manifest: Mapping[str, Any], url: str | None, published: str | None) -> str:
    entries = {
        "title": f"{manifest['name']}: sounds in which one audible property rises or falls",
        "author": f"{{{CREATOR}}}",
        "version": manifest["release"],
        **({"year": published[:4]} if published else {}),
        **({"url": url} if url else {}),
        "note": f"plan {manifest['plan_digest']}",
    }
    return f"@misc{{{manifest['name']}, {', '.join(f'{key} = {{{value}}}' for key, value in entries.items())}}}"


# -- files ------------------------------------------------------------------------------------------------------------


def _repo(url: str | None, checksum: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": REPO,
        "name": REPO,
        "description": "The folder of the dataset. sha256 is that of its manifest.json, which lists the SHA-256 of every shard.",
        "contentUrl": url or ".",
        "encodingFormat": "git+https",
        "sha256": checksum,
    }


def _shards(root: Path, manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for item in manifest["shards"]:
        path = f"data/{item['shard']}.parquet"
        yield {
            "@type": "cr:FileObject",
            "@id": path,
            "name": item["shard"],
            "description": f"{counted(item['n_rows'], 'clip')} of the split {split_of(item['shard'])}.",
            "containedIn": {"@id": REPO},
            "contentUrl": path,
            "contentSize": f"{places.size_bytes(root / path)} B",
            "encodingFormat": PARQUET,
            "sha256": item["parquet_sha256"],
        }


def _file_set(config: Mapping[str, Any]) -> dict[str, Any]:
    name = config["config_name"]
    return {
        "@type": "cr:FileSet",
        "@id": files_of(name),
        "name": f"files of {name}",
        "description": f"The Parquet files of the configuration {name}.",
        "containedIn": {"@id": REPO},
        "encodingFormat": PARQUET,
        "includes": [pattern for files in config["data_files"] for pattern in files["path"]],
    }


# -- records ----------------------------------------------------------------------------------------------------------


def _splits(splits: Sequence[str]) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": SPLITS,
        "name": SPLITS,
        "description": "The splits. No speaker, source or text is in two of them.",
        "dataType": "cr:Split",
        "key": {"@id": f"{SPLITS}/name"},
        "field": [
            {"@type": "cr:Field", "@id": f"{SPLITS}/{name}", "name": name, "description": about, "dataType": kind}
            for name, about, kind in (("name", "Name of the split.", "sc:Text"), ("url", "What the split is for.", "sc:URL"))
        ],
        "data": [{f"{SPLITS}/name": split, f"{SPLITS}/url": SPLIT_CLASSES[split]} for split in splits],
    }


def _record_set(config: Mapping[str, Any], manifest: Mapping[str, Any], splits: Sequence[str]) -> dict[str, Any]:
    name = config["config_name"]
    n_rows = sum(item["n_rows"] for item in shards_in(config, manifest))
    split = {
        "@type": "cr:Field",
        "@id": f"{name}/split",
        "name": "split",
        "description": "The split that the file belongs to.",
        "dataType": "sc:Text",
        "references": {"field": {"@id": f"{SPLITS}/name"}},
        "source": {
            "fileSet": {"@id": files_of(name)},
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": SPLIT_PATTERN.format("|".join(splits))},
        },
    }
    columns = features(manifest["recipe"]["sample_rate_hz"])
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"The configuration {name}: {counted(n_rows, 'clip')}.",
        "key": {"@id": f"{name}/id"},
        "field": [split, *(described(name, column, columns[column]) for column in columns)],
    }
