"""Is the science right? Reads a built dataset as a stranger would, and measures what else than the label's property tells it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from builder import cues, fingerprints, leakage, middles, places, printout, shortcuts, truth
from builder.acoustics import audio, curves
from builder.dimensions import BY_NAME, DIMENSIONS, MEASURES
from builder.keys import digest, rank_of, spoken_key
from builder.layout import read_rows, split_of, write_json
from builder.records import CONTROLS, FloatArray, Sound
from builder.words import counted

KEPT = [
    "id", "dimension", "direction", "tier", "curve", "pair_id", "source_kind", "source_id", "speaker_id", "text", "duration_s",
    "answer_index", "effect", "effect_jnd", "salience", "leak_jnd",
]  # fmt: skip
COLUMNS = list(dict.fromkeys(["audio", "plan", "span", "contour_time_s", "contour_value", *KEPT, *cues.COLUMNS]))
N_BOOTSTRAP = 2000
MAX_LINES = 10
"""Failures of one sort that are listed one by one."""
Map = Callable[..., Iterable[Any]]
ZERO_FACTS = {
    "published_contradicted": "no clip goes the other way than its label",
    "pairs_of_unequal_length": "both clips of a pair are equally long",
    "samples_at_full_scale": "no sample is at full scale",
    "curve_by_direction_unequal": "rising and falling are equally many in every curve",
    "answer_order_unequal": "in each dimension and split the first choice is right as often as the second",
}
"""Facts that must be 0, with what that demands."""
Clip = dict[str, Any]

text = printout.text


def run(
    root: Path, manifest: Mapping[str, Any], n_pairs: int, each: Map = map, listeners: Mapping[str, truth.Listener] | None = None
) -> dict[str, Any]:
    """Audit a dataset and write `audit/audit.json` into it.

    Parameters
    ----------
    root, manifest
        The dataset.
    n_pairs
        Pairs per dimension of which every dimension is measured, spread over splits, kinds, tiers and curves.
    each
        `map`, or that of an executor.
    listeners
        Who is asked what every clip says, by name; the one named `rule` must never contradict a label.

    Returns
    -------
    dict
        `truth`, `imposed`, `leaks`, `middles`, `yields`, `silence`, `shortcuts`, `duplicates`, `unbalanced`, `difficulty`, `facts`,
        `gates`, `failures` (one line each; empty if it passes), JSON-able.
    """
    swept = [item["shard"] for item in manifest["shards"] if not item["shard"].startswith(f"{CONTROLS}/")]
    chosen = _sample(root, swept, n_pairs)
    examine = partial(_examine, root, listeners=dict(listeners or {}), sex=manifest["sources"]["sex"])
    found = list(each(examine, swept, [chosen[name] for name in swept]))
    heard = [clip for shard in found for clip in shard["heard"]]
    clips = [clip for shard in found for clip in shard["clips"]]
    changes = [change for shard in found for change in shard["changes"]]
    report = {
        "release": manifest["release"],
        "manifest_sha256": hashlib.sha256(places.content(root / "manifest.json")).hexdigest(),
        "pairs_per_dimension": n_pairs,
        "truth": truth.table(heard),
        "imposed": truth.imposed(manifest["imposed"]),
        "leaks": leakage.matrix(changes),
        "middles": middles.table([(change["dimension"], change["gap_jnd"]) for change in changes]),
        "yields": _yields(manifest),
        "silence": _silence(clips),
        "shortcuts": _shortcuts(clips, changes, each),
        "duplicates": _duplicates(root, clips),
        "unbalanced": _unbalanced(clips),
        "difficulty": _difficulty(clips, manifest),
        "facts": _facts(clips, manifest),
    }
    report["gates"] = {"no clip says the opposite of its label": truth.failures(heard, "rule"), **_gates(report)}
    report["failures"] = [line for lines in report["gates"].values() for line in lines]
    write_json(report, root / "audit" / "audit.json")
    return report


def _sample(root: Path, shards: Sequence[str], n_pairs: int) -> dict[str, list[str]]:
    """Pairs to measure, by shard: each dimension's cells take turns, in an order that the identifiers decide."""
    cells: dict[str, dict[tuple[str, ...], list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for name in shards:
        rows = read_rows(root, name, ["dimension", "direction", "tier", "curve", "pair_id", "source_kind"])
        falling = {row["pair_id"] for row in rows if row["direction"] == 1}
        for row in rows:
            if row["direction"] == 0 and row["pair_id"] in falling:
                key = (row["source_kind"], row["tier"], row["curve"])
                cells[row["dimension"]][key].append((row["pair_id"], name))
    chosen: dict[str, list[str]] = {name: [] for name in shards}
    for dimension, mine in cells.items():
        order = sorted(mine, key=lambda key: rank_of("audit", dimension, *key))
        queues = [sorted(mine[key], key=lambda item: rank_of("audit", item[0])) for key in order]
        turns = [queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue)]
        for pair_id, name in turns[:n_pairs]:
            chosen[name].append(pair_id)
    return chosen


# -- one shard --------------------------------------------------------------------------------------------------------


def _examine(
    root: Path, shard_name: str, chosen: Sequence[str], listeners: Mapping[str, truth.Listener], sex: Mapping[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """Figures of every clip of a shard and what listeners say of it; for the chosen pairs what the sweep moved in every dimension."""
    clips, heard = [], []
    sounds: dict[tuple[str, int], tuple[dict[str, Any], Sound]] = {}
    wanted = set(chosen)
    for row in read_rows(root, shard_name, COLUMNS):
        sound = audio.from_flac(row["audio"]["bytes"])
        clips.append({"shard": shard_name, "split": split_of(shard_name), **_clip_figures(row, sound)})
        heard.append(truth.of_clip(row, sound, listeners, sex))
        if row["pair_id"] in wanted:
            sounds[row["pair_id"], row["direction"]] = (row, sound)
    changes = []
    for pair_id in chosen:
        (up, risen), (down, fallen) = sounds[pair_id, 0], sounds[pair_id, 1]
        gap_jnd = middles.gap_jnd((up, down), (risen, fallen))
        changes.append({"pair_id": pair_id, "gap_jnd": gap_jnd, **leakage.of_pair(up, risen, fallen)})
    return {"clips": clips, "changes": changes, "heard": heard}


def _clip_figures(row: Mapping[str, Any], sound: Sound) -> Clip:
    planned = json.loads(row["plan"])["pair"]
    start_s, end_s = audio.active_region_s(sound)
    spoken = {planned["source"]["parameters"].get("said"), digest(spoken_key(row["text"])) if row["text"] else None}
    return {
        **{key: row[key] for key in KEPT},
        "planned_jnd": planned["planned_contrast"] / planned["jnd"],
        "residual_jnd": _residual(row) / planned["jnd"],
        "said": sorted(spoken - {None}),
        "n_samples": len(sound.samples),
        "lead_minus_tail_s": start_s - (sound.duration_s - end_s),
        "at_full_scale": int(np.sum(np.abs(sound.samples) >= 1.0 - 1.0 / audio.PCM16_SCALE)),
        "peak_dbfs": audio.peak_dbfs(sound),
        "cues": cues.of_clip(row, sound),
        "fingerprint": fingerprints.of(sound),
    }


def _residual(row: Mapping[str, Any]) -> float:
    """Standard deviation of the published contour about the plan as its meter sees it, in the dimension's unit."""
    start_s, end_s = row["active_start_s"], row["active_end_s"]
    time_s = np.array(row["contour_time_s"], dtype=np.float64)
    value = np.array([np.nan if item is None else item for item in row["contour_value"]], dtype=np.float64)
    seen = curves.planned_as_seen(row["curve"], row["span"], time_s, start_s, end_s, BY_NAME[row["dimension"]].window_s)
    inside = np.isfinite(value) & (time_s >= start_s) & (time_s <= end_s)
    return float(np.std((value - seen)[inside])) if inside.any() else float("nan")


# -- the whole --------------------------------------------------------------------------------------------------------


def _by_dimension(clips: Iterable[Clip]) -> dict[str, list[Clip]]:
    """Clips of each dimension, in the order of `DIMENSIONS`."""
    mine = _grouped(clips, "dimension")
    return {dimension.name: mine[dimension.name,] for dimension in DIMENSIONS if (dimension.name,) in mine}


def _grouped(clips: Iterable[Clip], *keys: str) -> dict[tuple[Any, ...], list[Clip]]:
    groups: dict[tuple[Any, ...], list[Clip]] = defaultdict(list)
    for clip in clips:
        groups[tuple(clip[key] for key in keys)].append(clip)
    return groups


def _yields(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pairs tried, published and rejected by reason, for every dimension x kind x tier; controls are the tier `control`."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in manifest["cells"]:
        key = (cell["dimension"], cell["kind"], cell["tier"])
        row = rows.setdefault(key, {"tried": 0, "published": 0, "rejected": Counter()})
        row["tried"] += cell["tried"]
        row["published"] += cell["published"]
        row["rejected"].update(cell["rejected"])
    return [
        {"dimension": key[0], "kind": key[1], "tier": key[2], **row, "rejected": dict(row["rejected"].most_common())}
        for key, row in rows.items()
    ]


def _silence(clips: Sequence[Clip]) -> list[dict[str, Any]]:
    """How well lead-in minus lead-out silence tells rising from falling: AUC with an interval over sources that holds for all at once."""
    found = []
    dimensions = _by_dimension(clips)
    for name, mine in dimensions.items():
        auc, low, high = _auc_interval(mine, 1.0 - shortcuts.FALSE_ALARM / len(dimensions))
        found.append({"dimension": name, "auc": round(auc, 4), "low": round(low, 4), "high": round(high, 4), "n_clips": len(mine)})
    return found


def _auc_interval(clips: Sequence[Mapping[str, Any]], level: float = 0.95) -> tuple[float, float, float]:
    """AUC with its percentile bootstrap over sources: clips of one source aren't independent.

    Parameters
    ----------
    clips
        With `source_id`, `direction`, `lead_minus_tail_s`.
    level
        Of the interval.

    Returns
    -------
    auc, low, high
        0.5 each where a direction is missing.
    """
    number = {name: i for i, name in enumerate(sorted({clip["source_id"] for clip in clips}))}
    member, value, falls = (
        np.array(column) for column in zip(*((number[c["source_id"]], c["lead_minus_tail_s"], c["direction"]) for c in clips), strict=True)
    )
    if len(np.unique(falls)) < 2:
        return 0.5, 0.5, 0.5
    up, down = np.flatnonzero(falls == 0), np.flatnonzero(falls == 1)
    above = (value[up, None] > value[down]) + 0.5 * (value[up, None] == value[down])
    wins = np.zeros((len(number), len(number)))
    np.add.at(wins, (member[up, None], member[down]), above)
    n_up, n_down = (np.bincount(member[side], minlength=len(number)) for side in (up, down))
    times = np.random.default_rng(1).multinomial(len(number), np.full(len(number), 1.0 / len(number)), N_BOOTSTRAP)
    asked = (times @ n_up) * (times @ n_down)
    drawn = np.einsum("ij,ij->i", times @ wins, times)[asked > 0] / asked[asked > 0]
    low, high = np.quantile(drawn, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(above.mean()), float(low), float(high)


def _shortcuts(clips: Sequence[Clip], changes: Sequence[Mapping[str, Any]], each: Map) -> list[shortcuts.Result]:
    """How well each cue tells the direction, per dimension; groups are speakers, or sources where nobody speaks."""
    fine = {(change["pair_id"], side): _others(change, side) for change in changes for side in (0, 1)}
    audible = {key: cues.beyond_one_j(contrast) for key, contrast in fine.items()}
    dimensions = _by_dimension(clips)
    tables = []
    for mine in dimensions.values():
        table = {cue: [clip["cues"][cue] for clip in mine] for cue in mine[0]["cues"]}
        for cue, contrasts in (("others", audible), ("others_fine", fine)):
            table[cue] = [contrasts.get((clip["pair_id"], clip["direction"])) for clip in mine]
        tables.append(table)
    direction = [[clip["direction"] for clip in mine] for mine in dimensions.values()]
    groups = [[clip["speaker_id"] or clip["source_id"] for clip in mine] for mine in dimensions.values()]
    judged = each(shortcuts.judge, list(dimensions), direction, groups, tables)
    return shortcuts.gated([result for results in judged for result in results], cues.GATED)


def _others(change: Mapping[str, Any], side: int) -> FloatArray:
    """How far one clip of a pair moves, by itself, in every dimension that must hold still."""
    held = [name for name in MEASURES if leakage.must_hold(change["dimension"], name)]
    return np.array([change["contrast_jnd"][name][side] for name in held], dtype=np.float64)


def _duplicates(root: Path, clips: Sequence[Clip]) -> dict[str, Any]:
    """Audio that is alike, and texts that are the same, in more than one split: counts and examples."""
    bits = np.array([clip["fingerprint"] for clip in clips])
    duration_s = np.array([clip["duration_s"] for clip in clips])
    near = list(fingerprints.candidates(bits, duration_s, [clip["split"] for clip in clips]))
    sounds = _sounds(root, [clips[i] for i in sorted({i for pair in near for i in pair})])
    alike = []
    for first, second in ((clips[i], clips[j]) for i, j in near):
        correlation = fingerprints.correlation(sounds[first["id"], first["split"]], sounds[second["id"], second["split"]])
        if correlation >= fingerprints.MIN_CORRELATION:
            alike.append({"clips": [[clip["split"], clip["id"]] for clip in (first, second)], "correlation": round(correlation, 4)})
    where: dict[str, dict[str, str]] = defaultdict(dict)
    for clip in clips:
        for said in clip["said"]:
            where[said].setdefault(clip["split"], clip["id"])
    shared = [{"clips": [[split, clip_id] for split, clip_id in first.items()]} for first in where.values() if len(first) > 1]
    return {
        "candidates": len(near),
        "audio": len(alike),
        "audio_examples": alike[:MAX_LINES],
        "texts": len(where),
        "texts_shared": len(shared),
        "text_examples": shared[:MAX_LINES],
    }


def _sounds(root: Path, clips: Sequence[Clip]) -> dict[tuple[str, str], Sound]:
    """The audio of some clips, read once more."""
    sounds = {}
    for (shard,), mine in _grouped(clips, "shard").items():
        wanted = {clip["id"] for clip in mine}
        for row in read_rows(root, shard, ["id", "audio"]):
            if row["id"] in wanted:
                sounds[row["id"], split_of(shard)] = audio.from_flac(row["audio"]["bytes"])
    return sounds


def _unbalanced(clips: Sequence[Clip]) -> list[dict[str, Any]]:
    """Cells with more clips of one direction than of the other."""
    keys = ("dimension", "tier", "curve", "source_kind", "split")
    found = []
    for cell, mine in _grouped(clips, *keys).items():
        rising = sum(clip["direction"] == 0 for clip in mine)
        if 2 * rising != len(mine):
            found.append({**dict(zip(keys, cell, strict=True)), "rising": rising, "falling": len(mine) - rising})
    return found


def _difficulty(clips: Sequence[Clip], manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was planned and what was reached, in J, for every dimension x tier x curve x kind; the plainest figure of how hard it is.

    `asked_jnd` is the least that the label rule asks, `margin_jnd` what the weakest clip has above it; `residual_jnd` is the median
    standard deviation of a clip's contour about the plan: the movement from which the change stands out.
    """
    margins = {item["dimension"]: item["margins"] for item in manifest["recipe"]["dimensions"]}
    keys = ("dimension", "tier", "curve", "source_kind")
    found = []
    for cell, mine in _grouped(clips, *keys).items():
        effect = np.abs([clip["effect_jnd"] for clip in mine])
        planned_jnd = float(np.median([clip["planned_jnd"] for clip in mine]))
        asked = max(margins[cell[0]]["min_contrast_jnd"], margins[cell[0]]["min_share_of_plan"] * planned_jnd)
        low, median, high = np.percentile(effect, [10.0, 50.0, 90.0])
        salience = [clip["salience"] for clip in mine if clip["salience"] is not None]
        found.append(
            {
                **dict(zip(keys, cell, strict=True)),
                "n_clips": len(mine),
                "planned_jnd": round(planned_jnd, 4),
                "effect_low_jnd": round(float(low), 4),
                "effect_median_jnd": round(float(median), 4),
                "effect_high_jnd": round(float(high), 4),
                "residual_jnd": round(float(np.median([clip["residual_jnd"] for clip in mine])), 4),
                "salience_median": round(float(np.median(salience)), 4) if salience else None,
                "asked_jnd": round(asked, 4),
                "margin_jnd": round(float(effect.min()) - asked, 4),
            }
        )
    return found


def _facts(clips: Sequence[Clip], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Figures against which other ways of making such clips can be held."""
    swept = [cell for cell in manifest["cells"] if cell["curve"] != "flat"]
    shapes: Counter[tuple[str, str, int]] = Counter((clip["dimension"], clip["curve"], clip["direction"]) for clip in clips)
    orders: Counter[tuple[str, str, int]] = Counter((clip["dimension"], clip["split"], clip["answer_index"]) for clip in clips)
    loudness = [abs(clip["leak_jnd"]["loudness"]) for clip in clips if clip["leak_jnd"]["loudness"] is not None]
    lengths = [{clip["n_samples"] for clip in mine} for mine in _grouped(clips, "pair_id").values()]
    return {
        "clips": len(clips),
        "pairs_tried": sum(cell["tried"] for cell in swept),
        "pairs_published": sum(cell["published"] for cell in swept),
        "pairs_rejected_as_contradicted": sum(cell["rejected"].get("contradicted", 0) for cell in swept),
        "published_contradicted": sum(clip["effect"] * (1 if clip["direction"] == 0 else -1) <= 0.0 for clip in clips),
        "pairs_of_unequal_length": sum(len(length) > 1 for length in lengths),
        "samples_at_full_scale": sum(clip["at_full_scale"] for clip in clips),
        "largest_peak_dbfs": round(max(clip["peak_dbfs"] for clip in clips), 3),
        "loudness_leak_max_jnd": round(max(loudness), 4) if loudness else None,
        "curve_by_direction_unequal": sum(count != shapes[key[0], key[1], 1 - key[2]] for key, count in shapes.items()),
        "answer_order_unequal": sum(count != orders[key[0], key[1], 1 - key[2]] for key, count in orders.items()),
    }


# -- the verdict ------------------------------------------------------------------------------------------------------


def _gates(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """What must hold, each with one line for every place where it doesn't."""
    return {
        "nothing moves but what is swept or linked": leakage.failures(report["leaks"]),
        "both clips of a pair lie about the same middle": middles.failures(report["middles"]),
        "silence at the ends tells no direction": list(_silence_failures(report["silence"])),
        "no cue tells the direction": shortcuts.failures(report["shortcuts"]),
        "no sound and no text is in two splits": list(_duplicate_failures(report["duplicates"])),
        "every cell has as many rising as falling clips": list(_unbalanced_failures(report["unbalanced"])),
        "every tier is published on every kind of source that has it": [
            f"{row['dimension']} x {row['tier']} x {row['kind']}: nothing is published" for row in report["yields"] if row["published"] == 0
        ],
    } | {
        demand: [f"{key.replace('_', ' ')}: {report['facts'][key]}, must be 0"] if report["facts"][key] else []
        for key, demand in ZERO_FACTS.items()
    }


def _silence_failures(silence: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in silence:
        if not item["low"] <= 0.5 <= item["high"]:
            interval = f"AUC {item['auc']:.2f} ({item['low']:.2f} to {item['high']:.2f})"
            yield f"{item['dimension']}: silence at the ends tells the direction: {interval}"


def _unbalanced_failures(unbalanced: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for cell in unbalanced[:MAX_LINES]:
        what = " x ".join(cell[key] for key in ("dimension", "tier", "curve", "source_kind", "split"))
        yield f"{what}: {cell['rising']} rising and {counted(cell['falling'], 'falling clip')}, must be as many"
    if len(unbalanced) > MAX_LINES:
        yield f"... and {counted(len(unbalanced) - MAX_LINES, 'more cell')} out of balance"


def _duplicate_failures(duplicates: Mapping[str, Any]) -> Iterator[str]:
    for what, count, examples in (
        ("audio that is alike", duplicates["audio"], duplicates["audio_examples"]),
        ("the same text", duplicates["texts_shared"], duplicates["text_examples"]),
    ):
        if count:
            named = " and ".join(f"{clip_id} ({split})" for split, clip_id in examples[0]["clips"])
            yield f"{what} in more than one split: {counted(count, 'time')}, must be 0; such as {named}"
