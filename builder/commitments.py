"""Commitments to a split that is held private: its hash now, its data later.

What is committed to is a text: canonical JSON with a random salt and, for each clip of the split, what is asked, what the answer is
and the SHA-256 of the FLAC bytes. That text is the secret file; the commitment is its SHA-256, which `sha256sum` gives as well. The
salt (32 bytes) makes sure that nobody can try seeds until the hash fits.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.commands import command
from builder.errors import DatasetInvalid, NotFound, VocalgradError
from builder.keys import canonical
from builder.layout import read_manifest, read_rows, split_of
from builder.words import counted, unknown

FORMAT = "vocalgrad split commitment 1"
COMMITTED = ("id", "pair_id", "dimension", "question", "choices", "answer", "answer_index", "direction", "audio_sha256")
SALT_BYTES = 32
Row = dict[str, Any]


def commit(root: Path, split: str, out: Path, secret: Path) -> dict[str, Any]:
    """Write a commitment to a split, and the secret that opens it.

    Parameters
    ----------
    root
        Folder of the dataset.
    split
        Of all configurations, controls too.
    out, secret
        Files to write; neither may be there, and the secret may not lie in the dataset. Only the owner can read the secret.

    Returns
    -------
    dict
        The commitment: `format`, `name`, `version`, `split`, `n_rows`, `sha256`. It doesn't name the seed.

    Raises
    ------
    NotFound
        No dataset, or no such split in it.
    DatasetInvalid
        A clip's bytes aren't what its row says.
    VocalgradError
        A file is there already, or the secret would be published.
    """
    for path in (out, secret):
        if path.exists():
            raise VocalgradError(f"{path} is there already, and a published commitment can only be opened by its own secret: name another")
    if root.resolve() in secret.resolve().parents:
        raise VocalgradError(f"{secret} lies in the dataset and would be published with it: name a file elsewhere with --secret")
    manifest = read_manifest(root)
    rows = list(_rows(root, manifest, split))
    for row in rows:
        if row.pop("published_sha256") != row["audio_sha256"]:
            raise DatasetInvalid(f"{row['id']}: the audio's checksum isn't the row's; see `{command('validate', '--dataset', root)}`")
    salt = secrets.token_hex(SALT_BYTES)
    text = canonical({"format": FORMAT, "salt": salt, "split": split, "rows": rows}).encode()
    found = {
        "format": FORMAT,
        "name": manifest["name"],
        "version": manifest["version"],
        "split": split,
        "n_rows": len(rows),
        "sha256": hashlib.sha256(text).hexdigest(),
    }
    _write_new(secret, text, 0o600)
    _write_new(out, (json.dumps(found, allow_nan=False, indent=1) + "\n").encode(), 0o644)
    return found


def reveal(root: Path, commitment: Path, secret: Path) -> tuple[Mapping[str, Any], list[str]]:
    """Whether a dataset's split is what was committed to.

    Returns
    -------
    dict, list
        The commitment, and every way in which the secret or the rows differ from it, one line each; none if all is as committed.

    Raises
    ------
    NotFound
        The dataset or a file isn't there.
    DatasetInvalid
        The commitment isn't one, or the dataset can't be read.
    """
    promised = _json_of(_bytes_of(commitment), commitment)
    if set(promised) != {"format", "name", "version", "split", "n_rows", "sha256"} or promised["format"] != FORMAT:
        raise DatasetInvalid(f"{commitment} isn't a commitment of this form ({FORMAT})")
    content = _bytes_of(secret)
    found = hashlib.sha256(content).hexdigest()
    if found != promised["sha256"]:
        return promised, [f"{secret}: its SHA-256 is {found}, committed to is {promised['sha256']}: another secret, or it was changed"]
    opened = _json_of(content, secret)
    faults = [
        f"{commitment}: {key} is {promised[key]!r}, the secret says {now!r}"
        for key, now in (("split", opened["split"]), ("n_rows", len(opened["rows"])))
        if promised[key] != now
    ]
    there = list(_rows(root, read_manifest(root), opened["split"]))
    return promised, [*faults, *_differences(opened["rows"], there)]


def _rows(root: Path, manifest: Mapping[str, Any], split: str) -> Iterator[Row]:
    """What is committed to of each clip of a split, by identifier; the checksum is that of the bytes, beside it the row's own."""
    shards = [item["shard"] for item in manifest["shards"] if split_of(item["shard"]) == split]
    if not shards:
        raise NotFound(f"{root}: {unknown('split', split, sorted({split_of(item['shard']) for item in manifest['shards']}))}")
    rows = []
    for name in shards:
        for row in read_rows(root, name, [*COMMITTED, "audio"]):
            bytes_sha256 = hashlib.sha256(row.pop("audio")["bytes"]).hexdigest()
            rows.append({**row, "audio_sha256": bytes_sha256, "published_sha256": row["audio_sha256"]})
    yield from sorted(rows, key=lambda row: str(row["id"]))


def _differences(committed: list[Row], there: list[Row]) -> Iterator[str]:
    """Rows that are missing, new, repeated or changed, with what changed."""
    was, now = ({row["id"]: row for row in rows} for rows in (committed, there))
    for name in sorted(was.keys() | now.keys()):
        if name not in now:
            yield f"{name}: committed to, and not in the dataset"
        elif name not in was:
            yield f"{name}: in the dataset, and not committed to"
        else:
            yield from (
                f"{name}: {key} is {now[name][key]!r}, committed to is {was[name][key]!r}"
                for key in COMMITTED
                if now[name][key] != was[name][key]
            )
            if now[name]["published_sha256"] != now[name]["audio_sha256"]:
                yield f"{name}: the audio's checksum isn't the row's"
    yield from (f"{name}: stands in {counted(count, 'row')}" for name, count in Counter(row["id"] for row in there).items() if count > 1)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path} can't be read: {error.strerror}") from error


def _json_of(content: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise DatasetInvalid(f"{path} isn't JSON: {error}") from error
    if not isinstance(found, dict):
        raise DatasetInvalid(f"{path} isn't a JSON object")
    return found


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that isn't there yet, readable as said, and sync it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
        stream.write(content)
        os.fsync(stream.fileno())
