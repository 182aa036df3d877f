"""What the audit's own process holds: its tables are made from what workers would send of a large dataset.

    python -m bench.audit_memory                     # 240,000 clips
    python -m bench.audit_memory --clips 60000

Workers are stood in for: what they send is made up, of the form and size of a real shard's, and goes through pickle as over a pipe. All
else is the audit itself, from the choice of pairs to `audit.json`.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.memory import now_and_peak_mb
from builder import audit, cues, examined, fingerprints, shortcuts, truth
from builder.dimensions import DIMENSIONS, MEASURES
from builder.examined import Examined
from builder.words import counted

N_ROWS = 400
"""Clips of a shard."""
N_PAIRS = 48
TIERS, CURVES, KINDS = ("hard", "medium", "easy"), ("linear", "ease_in", "ease_out", "step"), ("speech", "vowels", "voice", "noise")
N_FEATURES = {"identifiers": 50, "text": 50, "region": 3, "size": 6, "silence": 3}
N_LEVELS = 38
"""Features of a cue that isn't in `N_FEATURES`: averages over bands."""


def names(n_clips: int) -> list[str]:
    """Shards of all dimensions and three splits, as many as it takes."""
    n_shards = -(-n_clips // N_ROWS)
    dimensions = [dimension.name for dimension in DIMENSIONS]
    return [f"{dimensions[i % len(dimensions)]}/{('train', 'test', 'validation')[i % 3]}-{i:05}-of-{n_shards:05}" for i in range(n_shards)]


def heads(name: str) -> dict[str, list[Any]]:
    """What tells the clips of a shard apart: two of each pair, of sources that a fifth of pairs share."""
    pairs = [i // 2 for i in range(N_ROWS)]
    return {
        "dimension": [name.split("/")[0]] * N_ROWS,
        "direction": [i % 2 for i in range(N_ROWS)],
        "pair_id": [f"pr{name[-14:-9]}{pair:015}" for pair in pairs],
        "source_id": [f"rc{name[-14:-9]}{pair // 5 * 4 + pair % 4:09}" for pair in pairs],
        "tier": [TIERS[pair % 3] for pair in pairs],
        "curve": [CURVES[pair % 4] for pair in pairs],
        "source_kind": [KINDS[pair % len(KINDS)] for pair in pairs],
    }


def written(root: Path, shards: Sequence[str]) -> dict[str, Any]:
    """Write the shards, as far as the audit's own process reads them, and return their manifest."""
    for name in shards:
        path = root / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(heads(name)), path)
    margins = {"min_contrast_jnd": 1.0, "min_share_of_plan": 0.5}
    manifest = {
        "release": "bench",
        "recipe": {"dimensions": [{"dimension": dimension.name, "margins": margins} for dimension in DIMENSIONS]},
        "shards": [{"shard": name, "n_rows": N_ROWS} for name in shards],
        "sources": {"sex": {}},
        "cells": [],
        "imposed": [],
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return manifest


def sent(name: str, chosen: Sequence[str]) -> Examined:
    """What a worker sends of a shard."""
    rng = np.random.default_rng(int(name[-14:-9]))
    head = heads(name)
    numbers = {field.name: rng.normal(-3.0, 1.0, N_ROWS) for field in examined.SCHEMA if field.type == pa.float64()}
    columns = {
        **head,
        **numbers,
        "shard": [name] * N_ROWS,
        "split": [name.split("/")[1].split("-")[0]] * N_ROWS,
        "speaker_id": [f"speaker {i % 109}" if i % 8 < 4 else None for i in range(N_ROWS)],
        "id": [f"vg{name[-14:-9]}{i:015}" for i in range(N_ROWS)],
        "said": [[f"{name[-14:-9]}{i // 2:011}"] for i in range(N_ROWS)],
        "answer_index": head["direction"],
        "n_samples": [80_000 + i // 2 for i in range(N_ROWS)],
        "at_full_scale": [0] * N_ROWS,
        "effect": np.where(np.array(head["direction"]) == 0, 1.0, -1.0),
        "duration_s": np.round(rng.uniform(2.5, 4.5, N_ROWS), 2),
        "fingerprint": [rng.bytes(fingerprints.N_BITS // 8) for _ in range(N_ROWS)],
        **{cue: _features(rng, cue) for cue in examined.CUES},
    }
    table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in examined.SCHEMA}, examined.SCHEMA)
    said = Counter(rule=N_ROWS, oracle=N_ROWS)
    count = truth.Count(N_ROWS, said, said)
    still = {"change_jnd": dict.fromkeys(MEASURES, 0.01), "contrast_jnd": dict.fromkeys(MEASURES, (0.01, -0.01)), "gap_jnd": 0.01}
    changes = [{"dimension": head["dimension"][0], "pair_id": pair_id, "source_id": pair_id, **still} for pair_id in chosen]
    return Examined({head["dimension"][0]: table}, changes, {(head["dimension"][0], "all", "all"): count})


def _features(rng: np.random.Generator, cue: str) -> list[Any]:
    if cue in cues.CATEGORIES:
        return [["hard", "linear", "speech", "increase"]] * N_ROWS
    values = rng.uniform(0.0, 255.0, (N_ROWS, N_FEATURES.get(cue, N_LEVELS)))
    return list(values.astype(np.uint8) if cue in cues.CHARACTERS else values)


def judged(dimension: str, *_: Any) -> list[shortcuts.Result]:
    """What a worker sends of a dimension's classifiers."""
    chance = {"accuracy": 0.5, "low": 0.5, "high": 0.5, "spread": 0.01, "p": 0.5, "n_clips": 100, "n_groups": 50}
    every = (*cues.GATED, *cues.REPORTED)
    return [{"dimension": dimension, "cue": cue, "classifier": name, **chance} for cue in every for name in shortcuts.CLASSIFIERS]


def each(work: Any, *columns: Sequence[Any]) -> Iterator[Any]:
    """A `map` over stand-ins for workers."""
    stand_in = sent if isinstance(work, partial) else judged
    for task in zip(*columns, strict=True):
        yield pickle.loads(pickle.dumps(stand_in(*pickle.loads(pickle.dumps(task)))))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=240_000, help="clips of the dataset (default: %(default)s)")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        manifest = written(Path(folder), names(asked.clips))
        before_mb, _ = now_and_peak_mb()
        report = audit.run(Path(folder), manifest, N_PAIRS, each)
        after_mb, peak_mb = now_and_peak_mb()
    print(f"{counted(report['facts']['clips'], 'clip')}: {before_mb:.0f} MB before, {after_mb:.0f} MB after, at most {peak_mb:.0f} MB")


if __name__ == "__main__":
    main()
