"""A dataset's front page: its card, with the audit's figures once there is an audit, and the picture on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from builder import card, release, show
from builder.errors import DatasetInvalid
from builder.folder import PICTURE
from builder.layout import publish_file, read_rows, temporary_for
from builder.recipe import KINDS

TYPICAL_JND = 4.0
"""Size of the change in the picture, as near as there is."""
COLUMNS = ["dimension", "pair_id", "direction", "source_kind", "effect_jnd"]


def write(root: Path, manifest: Mapping[str, Any]) -> None:
    """Write `README.md`, `ATTRIBUTION.md` and the picture of a dataset whose shards and manifest are in place.

    Parameters
    ----------
    root, manifest
        The dataset. An audit in it counts if it's of exactly this manifest.

    Raises
    ------
    DatasetInvalid
        No pair is in the dataset, its audit is damaged, or another version of this package made them.
    """
    audit = release.audit_of(root)
    with temporary_for(root / PICTURE) as temporary:
        show.sheet([example(root, manifest)], temporary)
        publish_file(temporary, root / PICTURE)
    try:
        card.write(root, manifest, manifest["recipe"]["sample_rate_hz"], audit)
    except (KeyError, jinja2.UndefinedError) as error:
        lacking = f"{root}: its manifest or audit lacks what the card says ({error})"
        raise DatasetInvalid(f"{lacking}: another vocalgrad made it; build and audit it again with this one") from error


def example(root: Path, manifest: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pair in the picture, (rising, falling): of the first dimension, on running speech if there is any, of about 4 J.

    Raises
    ------
    DatasetInvalid
        The dataset holds no pair of it.
    """
    dimension = manifest["cells"][0]["dimension"]
    shards = [item["shard"] for item in manifest["shards"] if item["shard"].startswith(f"{dimension}/")]
    heads = [(row, name) for name in shards for row in read_rows(root, name, COLUMNS) if row["direction"] == 0]
    if not heads:
        raise DatasetInvalid(f"{root}: no clip of {dimension} rises; build the dataset again")
    head, shard = min(heads, key=lambda found: _rank(found[0]))
    pair = {row["direction"]: row for row in read_rows(root, shard) if row["pair_id"] == head["pair_id"]}
    return pair[0], pair[1]


def _rank(row: Mapping[str, Any]) -> tuple[int, bool, str]:
    return KINDS.index(row["source_kind"]), abs(abs(row["effect_jnd"]) - TYPICAL_JND) > 1.0, row["pair_id"]
