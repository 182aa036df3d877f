"""What an audit measures in shards, and keeps of it: of each clip one row of an Arrow table, typed and packed, about 1 KB.

A worker reads a shard once, asks listeners of every clip, and measures every dimension in the pairs that were chosen; what it sends back
is all that the audit's process holds of the shard, so an audit of hundreds of thousands of clips fits into a few hundred MB.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from builder import cues, fingerprints, leakage, middles, truth
from builder.acoustics import audio, curves
from builder.dimensions import BY_NAME, DIMENSIONS
from builder.engines import tell
from builder.keys import digest, spoken_key
from builder.layout import read_rows, split_of
from builder.records import Sound

COLUMNS = [
    "audio", "plan", "span", "contour_time_s", "contour_value", "dimension", "direction", "source_id", "speaker_id", "duration_s",
    "answer_index", "effect", "effect_jnd", "salience", "leak_jnd", *cues.COLUMNS,
]  # fmt: skip
"""What is read of the rows."""
_WORD = pa.dictionary(pa.int32(), pa.string())
_FEATURES = {
    **dict.fromkeys((*cues.GATED, *cues.REPORTED), pa.list_(pa.float32())),
    **dict.fromkeys(cues.CHARACTERS, pa.list_(pa.uint8())),
    **dict.fromkeys(cues.CATEGORIES, pa.list_(_WORD.value_type)),
}
CUES = [name for name in _FEATURES if name not in cues.SAMPLED]
"""Cues that every clip has."""
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("shard", "split", "dimension", "tier", "curve", "source_kind", "speaker_id"), _WORD),
        **dict.fromkeys(("id", "pair_id", "source_id"), pa.string()),
        "said": pa.list_(pa.string()),
        **dict.fromkeys(("direction", "answer_index"), pa.int8()),
        **dict.fromkeys(("n_samples", "at_full_scale"), pa.int64()),
        **dict.fromkeys(("duration_s", "effect", "effect_jnd", "salience", "planned_jnd", "residual_jnd"), pa.float64()),
        **dict.fromkeys(("lead_minus_tail_s", "peak_dbfs", "loudness_leak_jnd"), pa.float64()),
        "fingerprint": pa.binary(fingerprints.N_BITS // 8),
        **{name: _FEATURES[name] for name in CUES},
    }
)
"""What is kept of a clip."""


@dataclass
class Examined:
    """What was found in some shards.

    Parameters
    ----------
    clips
        Dimension -> a table of `SCHEMA`.
    changes
        Of each pair that was measured in full: `leakage.of_pair`, with `pair_id` and `gap_jnd`.
    counts
        What listeners say.
    contradicted
        One line for each clip of which the labelling rule says the opposite.
    """

    clips: dict[str, pa.Table] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)
    counts: truth.Counts = field(default_factory=dict)
    contradicted: list[str] = field(default_factory=list)

    def whole(self, *columns: str) -> pa.Table:
        """Some columns of all clips."""
        return pa.concat_tables([table.select(columns) for table in self.clips.values()]).unify_dictionaries()

    def rows(self, *columns: str) -> Iterator[dict[str, Any]]:
        """Some columns of all clips, one dimension after another."""
        for table in self.clips.values():
            yield from table.select(columns).to_pylist()

    def counted(self, *keys: str) -> dict[tuple[Any, ...], int]:
        """How many clips there are of each combination of keys."""
        groups = self.whole(*keys).group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
        return {tuple(row[key] for key in keys): row["count_all"] for row in groups.to_pylist()}


def together(parts: Iterable[Examined]) -> Examined:
    """Several shards as one, dimensions in the order of `DIMENSIONS`."""
    whole = Examined()
    tables: dict[str, list[pa.Table]] = defaultdict(list)
    for part in parts:
        for name, table in part.clips.items():
            tables[name].append(table)
        whole.changes += part.changes
        whole.counts = truth.merged([whole.counts, part.counts])
        whole.contradicted += part.contradicted
    there = [dimension.name for dimension in DIMENSIONS if dimension.name in tables]
    whole.clips = {name: pa.concat_tables(tables.pop(name)).unify_dictionaries() for name in there}
    return whole


def features(table: pa.Table, cue: str) -> list[cues.Features]:
    """A cue's features of each clip of a table."""
    column = table[cue].combine_chunks()
    if cue in cues.CATEGORIES:
        words: list[cues.Features] = column.to_pylist()
        return words
    return list(column.flatten().to_numpy().reshape(len(table), -1))


# -- in a worker ------------------------------------------------------------------------------------------------------


def shard(
    root: Path,
    name: str,
    chosen: Sequence[str],
    listeners: Mapping[str, truth.Listener] | None = None,
    sex: Mapping[str, str] | None = None,
) -> Examined:
    """Examine a shard; the engine is told of each clip when all of its work is done.

    Parameters
    ----------
    root, name
        Dataset and shard.
    chosen
        Pairs of which every dimension is measured.
    listeners, sex
        See `truth.of_clip`.
    """
    clips, heard = [], []
    pairs: dict[str, dict[int, tuple[dict[str, Any], Sound]]] = {pair_id: {} for pair_id in chosen}
    for row in read_rows(root, name, COLUMNS):
        sound = audio.from_flac(row["audio"]["bytes"])
        clips.append({"shard": name, "split": split_of(name), **_figures(row, sound)})
        heard.append(truth.of_clip(row, sound, listeners or {}, sex or {}))
        if row["pair_id"] in pairs:
            pairs[row["pair_id"]][row["direction"]] = (row, sound)
        else:
            tell((1,))
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for clip in clips:
        tables[clip["dimension"]].append(clip)
    changes = [_change(pair, 2) for pair in pairs.values()]
    by_dimension = {dimension: pa.Table.from_pylist(mine, schema=SCHEMA) for dimension, mine in tables.items()}
    return Examined(by_dimension, changes, truth.tallied(heard), truth.failures(heard, "rule"))


def measured_pairs(root: Path, name: str, chosen: Sequence[str]) -> list[dict[str, Any]]:
    """Measure every dimension in some pairs of a shard, see `Examined.changes`; the engine is told of each pair."""
    found: dict[str, dict[int, tuple[dict[str, Any], Sound]]] = {pair_id: {} for pair_id in chosen}
    for row in read_rows(root, name, COLUMNS):
        if row["pair_id"] in found:
            found[row["pair_id"]][row["direction"]] = (row, audio.from_flac(row["audio"]["bytes"]))
    return [_change(pair, 1) for pair in found.values()]


def _change(pair: Mapping[int, tuple[dict[str, Any], Sound]], counts_for: int) -> dict[str, Any]:
    """What moves in a pair, direction -> row and sound."""
    (up, risen), (down, fallen) = pair[0], pair[1]
    gap_jnd = middles.gap_jnd((up, down), (risen, fallen))
    change = {"pair_id": up["pair_id"], "gap_jnd": gap_jnd, **leakage.of_pair(up, risen, fallen)}
    tell((counts_for,))
    return change


def _figures(row: Mapping[str, Any], sound: Sound) -> dict[str, Any]:
    """A row of `SCHEMA`, but its shard and split."""
    planned = json.loads(row["plan"])["pair"]
    start_s, end_s = audio.active_region_s(sound)
    spoken = {planned["source"]["parameters"].get("said"), digest(spoken_key(row["text"])) if row["text"] else None}
    return {
        **{name: row[name] for name in SCHEMA.names if name in row},
        "planned_jnd": planned["planned_contrast"] / planned["jnd"],
        "residual_jnd": _residual(row) / planned["jnd"],
        "loudness_leak_jnd": row["leak_jnd"]["loudness"],
        "said": sorted(spoken - {None}),
        "n_samples": len(sound.samples),
        "lead_minus_tail_s": start_s - (sound.duration_s - end_s),
        "at_full_scale": int(np.sum(np.abs(sound.samples) >= 1.0 - 1.0 / audio.PCM16_SCALE)),
        "peak_dbfs": audio.peak_dbfs(sound),
        "fingerprint": fingerprints.of(sound).tobytes(),
        **cues.of_clip(row, sound),
    }


def _residual(row: Mapping[str, Any]) -> float:
    """Standard deviation of the published contour about the plan as its meter sees it, in the dimension's unit."""
    start_s, end_s = row["active_start_s"], row["active_end_s"]
    time_s = np.array(row["contour_time_s"], dtype=np.float64)
    value = np.array([np.nan if item is None else item for item in row["contour_value"]], dtype=np.float64)
    seen = curves.planned_as_seen(row["curve"], row["span"], time_s, start_s, end_s, BY_NAME[row["dimension"]].window_s)
    inside = np.isfinite(value) & (time_s >= start_s) & (time_s <= end_s)
    return float(np.std((value - seen)[inside])) if inside.any() else float("nan")
