"""What a release is made of: the files of a finished dataset, its tag, and what must hold before it's published.

A release's name is `<version>+seed.<n>`. Its tag is `v<version>-seed.<n>`: git takes a `+` in a tag, but a URL's query and
many tools' patterns for revisions don't, and letters, digits, `.` and `-` pass everywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import croissant_faults, places
from builder.commands import command
from builder.croissant import CROISSANT
from builder.errors import DatasetInvalid, NotPublished
from builder.folder import CARD, NO_CARD, PICTURE, card_again, card_faults, front_matter, no_card, shards_in
from builder.layout import read_manifest
from builder.truth import imposed
from builder.words import counted

MANIFEST, AUDIT = "manifest.json", "audit/audit.json"
ALWAYS = (
    CARD, PICTURE, CROISSANT, "ATTRIBUTION.md", MANIFEST, AUDIT, "audit/report.html", "audit/difficulty.png", "audit/leakage.png",
)  # fmt: skip
"""Files of every release, beside its shards and their reports."""
OF_THE_HUB = (".gitattributes",)
"""Files that the Hub keeps in a repository itself."""
MAX_FOLDER_FILES = 10_000
"""The Hub takes no more in one folder."""
SEED = r"(\d+|secret-[0-9a-f]{16})"
RELEASE = re.compile(r"(\d+\.\d+\.\d+)\+seed\." + SEED)
TAG = re.compile(r"v\d+\.\d+\.\d+-seed\." + SEED)
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class File:
    """A file with the checksums that the Hub lists: SHA-256 of large files, git's SHA-1 of small ones."""

    path: Path
    size: int
    sha256: str
    git_sha1: str


@dataclass(frozen=True)
class Release:
    """A dataset that may be published: its files by their path in the repository, in order."""

    name: str
    tag: str
    manifest: Mapping[str, Any]
    files: Mapping[str, File]


def tag_of(manifest: Mapping[str, Any]) -> str:
    """The tag of a release.

    Raises
    ------
    NotPublished
        The manifest names no release.
    """
    found = RELEASE.fullmatch(str(manifest.get("release")))
    if found is None:
        raise NotPublished(f"{MANIFEST}: release {manifest.get('release')!r} isn't <version>+seed.<n>: build the dataset again")
    return f"v{found[1]}-seed.{found[2]}"


def tag_faults(manifest: Mapping[str, Any], revision: str) -> list[str]:
    """Whether a version carries a tag that says another release; other revisions, such as commits, say none."""
    if not TAG.fullmatch(revision) or revision == tag_of(manifest):
        return []
    return [f"{MANIFEST}: tagged {revision}, it's release {manifest['release']}"]


def wanted_files(manifest: Mapping[str, Any]) -> list[str]:
    """Every file of a release, by its path."""
    shards = [item["shard"] for item in manifest["shards"]]
    of_speech = ["audit/imposed.png"] if any(row["n_clips"] for row in imposed(manifest["imposed"])) else []
    return sorted([*ALWAYS, *of_speech, *(f"data/{name}.parquet" for name in shards), *(f"reports/{name}.json" for name in shards)])


def read(root: Path) -> Release:
    """A dataset's release, its files hashed.

    Raises
    ------
    NotPublished
        The folder isn't a finished, audited dataset and nothing else: every fault at once, with what to do.
    """
    manifest = read_manifest(root)
    tag = tag_of(manifest)
    found = faults(root, manifest)
    if found:
        raise NotPublished(f"{root} can't be published:\n" + "\n".join(f"  {fault}" for fault in found))
    return Release(manifest["release"], tag, manifest, {name: file_of(root / name) for name in wanted_files(manifest)})


def faults(root: Path, manifest: Mapping[str, Any]) -> list[str]:
    """What keeps a folder from being published, apart from its rows; one line each, with what to do."""
    wanted = set(wanted_files(manifest))
    there = set(places.names(root)) - set(OF_THE_HUB)
    unknown, missing = sorted(there - wanted), sorted(wanted - there)
    found = [f"{name}: not a file of this dataset: move it away" for name in unknown]
    found += [f"{name}: missing: {_maker(root, name)}" for name in missing]
    crowded = Counter(name.rpartition("/")[0] for name in wanted)
    found += [
        f"{folder}/: {counted(count, 'file')}, the Hub takes {MAX_FOLDER_FILES} in a folder: raise max_pairs_per_shard"
        for folder, count in crowded.items()
        if count > MAX_FOLDER_FILES
    ]
    if AUDIT in there and MANIFEST in there:
        found += _audit_faults(root, manifest)
    if CARD in there:
        found += card_faults(root, manifest)
    if CROISSANT in there:
        found += croissant_faults.faults(root, manifest)
    return found


def _maker(root: Path, name: str) -> str:
    if name.startswith("audit/"):
        return _audit_again(root)
    return card_again(root) if name in ALWAYS and name != MANIFEST else "build the dataset again"


def _audit_again(root: Path) -> str:
    return f"run `{command('audit', '--dataset', root)}`"


def _audit_faults(root: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    again = _audit_again(root)
    try:
        audit = json.loads(places.text(root / AUDIT))
    except ValueError as error:
        yield f"{AUDIT}: damaged ({error}): {again}"
        return
    failures = audit.get("failures") if isinstance(audit, dict) else None
    if not isinstance(failures, list):
        yield f"{AUDIT}: it doesn't say whether the audit passed: {again}"
    elif failures:
        told = f"{counted(len(failures), 'failure')}, such as: {failures[0]}"
        yield f"{AUDIT}: the audit didn't pass ({told}): change the recipe and build again"
    elif audit.get("release") != manifest["release"] or not audit_is_of(root / MANIFEST, audit):
        yield f"{AUDIT}: the audit is of another build ({audit.get('release')}): {again}"


def audit_is_of(manifest_path: Path, audit: Mapping[str, Any]) -> bool:
    """Whether an audit was made of exactly this manifest; one that doesn't say of which was not."""
    return bool(audit.get("manifest_sha256") == hashlib.sha256(places.content(manifest_path)).hexdigest())


def audit_of(root: Path) -> dict[str, Any] | None:
    """The audit in a dataset's folder; None where there is none, or one of another build.

    Raises
    ------
    DatasetInvalid
        It's damaged.
    """
    path = root / AUDIT
    try:
        audit: dict[str, Any] = json.loads(places.text(path))
        return audit if audit_is_of(root / MANIFEST, audit) else None
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as error:
        raise DatasetInvalid(f"{path} is damaged ({error}): {_audit_again(root)}") from error


def shards_of(root: Path, manifest: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the shards of each configuration that a dataset's card lists, in the card's order.

    Raises
    ------
    DatasetInvalid
        The card lists none.
    """
    try:
        configs = front_matter(root)["configs"]
        return {config["config_name"]: [item["shard"] for item in shards_in(config, manifest)] for config in configs}
    except NO_CARD as error:
        raise DatasetInvalid(f"{root}/{CARD}: {no_card(error)}: {card_again(root)}") from error


def file_of(path: Path) -> File:
    """A file, read once for both checksums."""
    size = path.stat().st_size
    sha256, git_sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as stream:
        while content := stream.read(CHUNK_BYTES):
            sha256.update(content)
            git_sha1.update(content)
    return File(path, size, sha256.hexdigest(), git_sha1.hexdigest())
