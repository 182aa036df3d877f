"""The dataset's README: configurations that `datasets` reads, and a card that people read, from the build's numbers.

`datasets` keys its cache of a local folder by name and YAML only, never by file contents: so every configuration carries
the version and a digest of its shards, or a rebuilt folder would give old rows. It marks missing shards only where
`dataset_info` has exact counts: so they're here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import yaml

from builder import evidence, licences, places
from builder.dimensions import BY_NAME
from builder.folder import PICTURE
from builder.layout import features, read_rows, split_of, write_text
from builder.records import CONTROLS
from builder.release import tag_of
from builder.truth import imposed

TEMPLATE = Path(__file__).parent.parent / "data_cards" / "card.md.j2"
ALL = "all"
MOST_WRONG = 3
"""Cells of which the card's text says how wrong imposed labels would have been; the table has all."""
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write(root: Path, manifest: Mapping[str, Any], sample_rate_hz: int, audit: Mapping[str, Any] | None = None) -> None:
    """Write `README.md` and `ATTRIBUTION.md` of a dataset whose shards and manifest are in place.

    Parameters
    ----------
    root, manifest, sample_rate_hz
        The dataset.
    audit
        What its audit found; None where it wasn't audited yet, and the card says so.
    """
    facts = _facts(root, manifest)
    front = yaml.safe_dump(_front_matter(root, manifest, facts, sample_rate_hz), sort_keys=False, allow_unicode=True, width=120)
    template = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    body = template.render(
        manifest=manifest,
        facts=facts,
        dimensions=[BY_NAME[name] for name in facts["dimensions"]],
        evidence=evidence.of(audit) if audit else None,
        picture=PICTURE,
        tag=tag_of(manifest),
    )
    write_text(f"---\n{front}---\n\n{body}", root / "README.md")
    write_text(_attribution(manifest, facts), root / "ATTRIBUTION.md")


def _facts(root: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that the card states, all read back from the shards and the manifest."""
    columns = [
        "dimension", "source_kind", "source_id", "speaker_id", "language", "licence", "attribution", "witness", "direction", "leak_jnd",
        "answer_index", "choices",
    ]  # fmt: skip
    rows = [{**row, "split": split_of(item["shard"])} for item in manifest["shards"] for row in read_rows(root, item["shard"], columns)]
    names = list(dict.fromkeys(cell["dimension"] for cell in manifest["cells"]))
    splits = list(dict.fromkeys(cell["split"] for cell in manifest["cells"]))
    swept = [cell for cell in manifest["cells"] if cell["curve"] != "flat"]
    rejected: dict[str, dict[str, int]] = {name: {} for name in names}
    tally = {name: {"tried": 0, "published": 0} for name in names}
    for cell in swept:
        for key in ("tried", "published"):
            tally[cell["dimension"]][key] += cell[key]
        for reason, count in cell["rejected"].items():
            rejected[cell["dimension"]][reason] = rejected[cell["dimension"]].get(reason, 0) + count
    wrong = [row for row in imposed(manifest["imposed"]) if row["n_clips"]]
    return {
        "dimensions": names,
        "stereo": [name for name in names if BY_NAME[name].stereo],
        "n_clips": len(rows),
        "n_controls": sum(cell["published"] for cell in manifest["cells"] if cell["curve"] == "flat"),
        "tiers": _tiers(manifest),
        "tally": tally,
        "n_tried": sum(counts["tried"] for counts in tally.values()),
        "n_published": sum(counts["published"] for counts in tally.values()),
        "blind": _blind(rows),
        "shown_split": "test" if "test" in splits else splits[0],
        "rejected": {name: dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))) for name, counts in rejected.items()},
        "leaks": {name: _leaks([row for row in rows if row["dimension"] == name]) for name in names},
        "sources": {name: {split: _distinct(rows, name, split) for split in splits} for name in names},
        "moderated": [
            (part["dimension"], rule["kind"], rule["movement"])
            for part in manifest["recipe"]["dimensions"]
            for rule in part["sources"]
            if rule["movement"] != 1.0
        ],
        "kinds": {name: sorted({row["source_kind"] for row in rows if row["dimension"] == name}) for name in names},
        "speakers": sorted({row["speaker_id"] for row in rows if row["language"]}),
        "languages": sorted({row["language"] for row in rows if row["language"]}),
        "licences": sorted({row["licence"] for row in rows}),
        "attributions": {
            name: sorted({row["attribution"] for row in rows if row["licence"] == name}) for name in {row["licence"] for row in rows}
        },
        "imposed": {
            name: [row for row in wrong if row["dimension"] == name] for name in names if any(row["dimension"] == name for row in wrong)
        },
        "imposed_most": sorted((row for row in wrong if row["slope_opposite"]), key=lambda row: -row["slope_opposite"])[:MOST_WRONG],
        "clips_by_licence": Counter(row["licence"] for row in rows),
        "clips_by_sex": {split: _clips_by_sex(rows, split, manifest["sources"]["sex"]) for split in splits},
        "witness_undecided": sum(row["witness"] == "undecided" for row in rows),
        "splits": splits,
    }


def _tiers(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Tier -> how many J, each value that a dimension gives it."""
    values: dict[str, set[float]] = {}
    for part in manifest["recipe"]["dimensions"]:
        for tier, jnd in part["tiers"].items():
            values.setdefault(tier, set()).add(jnd)
    return {tier: " or ".join(f"{jnd:g}" for jnd in sorted(found)) for tier, found in values.items()}


def _blind(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Shares of labelled clips that are right for who guesses, always says the commonest direction, or always takes the first choice."""
    labelled = [row for row in rows if row["direction"] is not None]
    commonest = Counter(row["direction"] for row in labelled).most_common(1)[0][1]
    return {
        "random": float(np.mean([1.0 / len(row["choices"]) for row in labelled])),
        "majority": commonest / len(labelled),
        "first_choice": float(np.mean([row["answer_index"] == 0 for row in labelled])),
    }


def _leaks(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Per other dimension: mean of the change in the direction of the label, and 95th percentile of its size, in J."""
    found: dict[str, list[float]] = {}
    for row in rows:
        sign = {0: 1.0, 1: -1.0}.get(row["direction"], 0.0)
        for name, leak in row["leak_jnd"].items():
            if leak is not None and sign:
                found.setdefault(name, []).append(sign * leak)
    return {name: (round(float(np.mean(leaks)), 2) + 0.0, float(np.percentile(np.abs(leaks), 95))) for name, leaks in found.items()}


def _distinct(rows: Sequence[Mapping[str, Any]], dimension: str, split: str) -> tuple[int, int, int]:
    """Labelled clips, distinct sources and distinct real speakers of a dimension in a split."""
    mine = [row for row in rows if row["dimension"] == dimension and row["split"] == split and row["direction"] is not None]
    speakers = {row["speaker_id"] for row in mine if row["language"]}
    return len(mine), len({row["source_id"] for row in mine}), len(speakers)


def _licence(manifest: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """What the dataset is published under: what the recipe declares, else the licence that all rows have, else `other`."""
    declared = str(manifest["recipe"]["licence"])
    return facts["licences"][0] if declared == licences.MIXED and len(facts["licences"]) == 1 else declared


def _attribution(manifest: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The lines to print for the sounds, by licence, with what was done to them."""
    parts = [
        "# Sources of the sounds",
        "Every clip was made from one of these by vocalgrad: real speech is cut, brought to one level and processed, so that one audible "
        "property rises or falls; a row's `plan` says which stretch and what was done to it. The licences are those of the sources, named "
        "in each row.",
    ]
    for name in facts["licences"]:
        told = manifest["sources"]["licences"][name]
        lines = [f"- {line}" for line in facts["attributions"][name]]
        parts += [f"## {name}", f"Asks: {told['asks']}. Terms: {told['text']}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _clips_by_sex(rows: Sequence[Mapping[str, Any]], split: str, sex: Mapping[str, str]) -> Counter[str]:
    """Labelled clips of real voices in a split: by f, m, and unknown."""
    voices = [row["speaker_id"] for row in rows if row["split"] == split and row["language"] and row["direction"] is not None]
    return Counter(sex.get(speaker, "unknown") for speaker in voices)


def _front_matter(root: Path, manifest: Mapping[str, Any], facts: Mapping[str, Any], sample_rate_hz: int) -> dict[str, Any]:
    columns = features(sample_rate_hz)._to_yaml_list()
    configs, infos = [], []
    has_controls = any(item["shard"].startswith(f"{CONTROLS}/") for item in manifest["shards"])
    for name in (ALL, *facts["dimensions"], *([CONTROLS] if has_controls else [])):
        folders = _folders(name, facts["dimensions"])
        shards = [item for item in manifest["shards"] if item["shard"].startswith(tuple(folders))]
        splits = [split for split in facts["splits"] if any(split_of(item["shard"]) == split for item in shards)]
        content = sha256("".join(item["parquet_sha256"] for item in shards).encode()).hexdigest()
        configs.append(
            {
                "config_name": name,
                **({"default": True} if name == ALL else {}),
                "version": manifest["version"],
                "description": f"seed {manifest['seed']}, sha256-{content}",
                "data_files": [
                    {"split": split, "path": [f"data/{folder}{split}-*.parquet" for folder in folders if _has(shards, folder, split)]}
                    for split in splits
                ],
            }
        )
        infos.append(_info(root, name, columns, shards, splits))
    return {
        **licences.on_card(_licence(manifest, facts)),
        "pretty_name": "vocalgrad",
        "language": facts["languages"] or ["zxx"],
        "tags": ["audio", "psychoacoustics", "auditory-perception", "benchmark"],
        "task_categories": ["audio-classification"],
        "size_categories": [next((label for limit, label in SIZES if facts["n_clips"] < limit), "n>1M")],
        "annotations_creators": ["machine-generated"],
        "configs": configs,
        "dataset_info": infos,
    }


def _folders(config: str, dimensions: list[str]) -> list[str]:
    """Beginnings of the names of a configuration's shards. `all` is every mono dimension; of a build with none, every dimension."""
    if config == CONTROLS:
        return [f"{CONTROLS}/{dimension}-" for dimension in dimensions]
    if config != ALL:
        return [f"{config}/"]
    return [f"{dimension}/" for dimension in dimensions if not BY_NAME[dimension].stereo] or [f"{dimension}/" for dimension in dimensions]


def _has(shards: list[Mapping[str, Any]], folder: str, split: str) -> bool:
    return any(item["shard"].startswith(f"{folder}{split}-") for item in shards)


def _info(root: Path, name: str, columns: Any, shards: list[Mapping[str, Any]], splits: list[str]) -> dict[str, Any]:
    found = []
    total = 0
    for split in splits:
        mine = [item for item in shards if split_of(item["shard"]) == split]
        size = sum(places.size_bytes(root / "data" / f"{item['shard']}.parquet") for item in mine)
        found.append({"name": split, "num_bytes": size, "num_examples": sum(item["n_rows"] for item in mine)})
        total += size
    return {"config_name": name, "features": columns, "splits": found, "download_size": total, "dataset_size": total}
