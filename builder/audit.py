"""Is the science right? Reads a built dataset as a stranger would, and measures what else than the label's property tells it.

The two clips of a pair share their source, so half the difference between what a meter hears in the rising and in the falling one
is what the sweep did to it, free of what the source does by itself: no sham and no recipe is needed, only the bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from builder.acoustics import audio, statistics
from builder.dimensions import BY_NAME, DIMENSIONS, MEASURES, HeldBy
from builder.keys import rank_of
from builder.layout import read_rows, split_of, write_json
from builder.records import CONTROLS, FloatArray, Sound

COLUMNS = [
    "audio", "dimension", "direction", "tier", "curve", "pair_id", "source_kind", "source_id", "active_start_s", "active_end_s", "effect",
    "leak_jnd",
]  # fmt: skip
MAX_LEAK_JND = 1.0
"""Limit of the 95th percentile of |change| in every dimension that isn't swept or linked: an equivalence within one J."""
N_BOOTSTRAP = 400
ZERO_FACTS = {
    "published_contradicted": "no clip goes the other way than its label",
    "pairs_of_unequal_length": "both clips of a pair are equally long",
    "samples_at_full_scale": "no sample is at full scale",
    "curve_by_direction_unequal": "rising and falling are equally many in every curve",
}
"""Facts that must be 0, with what that demands."""
Map = Callable[..., Iterable[Any]]


def run(root: Path, manifest: Mapping[str, Any], n_pairs: int, each: Map = map) -> dict[str, Any]:
    """Audit a dataset and write `audit/audit.json` into it.

    Parameters
    ----------
    root, manifest
        The dataset.
    n_pairs
        Pairs per dimension of which every dimension is measured, spread over splits, kinds, tiers and curves.
    each
        `map`, or that of an executor.

    Returns
    -------
    dict
        `leaks`, `yields`, `silence`, `facts`, `gates` (what each demands, and a line for each failure), `failures` (all those
        lines; empty if it passes), JSON-able.
    """
    swept = [item["shard"] for item in manifest["shards"] if not item["shard"].startswith(f"{CONTROLS}/")]
    chosen = _sample(root, swept, n_pairs)
    found = list(each(_examine, [str(root)] * len(swept), swept, [chosen[name] for name in swept]))
    clips = [clip for shard in found for clip in shard["clips"]]
    report = {
        "release": manifest["release"],
        "pairs_per_dimension": n_pairs,
        "leaks": _leaks([change for shard in found for change in shard["changes"]]),
        "yields": _yields(manifest),
        "silence": _silence(clips),
        "facts": _facts(clips, manifest),
    }
    report["gates"] = _gates(report)
    report["failures"] = [line for lines in report["gates"].values() for line in lines]
    write_json(report, root / "audit" / "audit.json")
    return report


def _sample(root: Path, shards: Sequence[str], n_pairs: int) -> dict[str, list[str]]:
    """Pairs to measure, by shard: each dimension's cells take turns, in an order that the identifiers decide."""
    cells: dict[str, dict[tuple[str, ...], list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for name in shards:
        for row in read_rows(root, name, ["dimension", "direction", "tier", "curve", "pair_id", "source_kind"]):
            if row["direction"] == 0:
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


def _examine(root: str, shard_name: str, chosen: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Figures of every clip of a shard, and what a sweep moved in every dimension for the chosen pairs."""
    clips, sounds = [], {}
    for row in read_rows(Path(root), shard_name, COLUMNS):
        sound = audio.from_flac(row["audio"]["bytes"])
        clips.append({"split": split_of(shard_name), **_clip_figures(row, sound)})
        if row["pair_id"] in chosen:
            sounds[row["pair_id"], row["direction"]] = (row, sound)
    changes = [_changes(*sounds[pair_id, 0], sounds[pair_id, 1][1]) for pair_id in chosen]
    return {"clips": clips, "changes": changes}


def _clip_figures(row: Mapping[str, Any], sound: Sound) -> dict[str, Any]:
    start_s, end_s = audio.active_region_s(sound)
    kept = {key: row[key] for key in COLUMNS if key not in ("audio", "leak_jnd")}
    at_full_scale = int(np.sum(np.abs(sound.samples) >= 1.0 - 1.0 / audio.PCM16_SCALE))
    return {
        **kept,
        "n_samples": len(sound.samples),
        "lead_minus_tail_s": start_s - (sound.duration_s - end_s),
        "at_full_scale": at_full_scale,
        "peak_dbfs": audio.peak_dbfs(sound),
        "leak_jnd": row["leak_jnd"],
    }


def _changes(row: Mapping[str, Any], up: Sound, down: Sound) -> dict[str, Any]:
    """Half the difference between a rising and a falling clip in every dimension, J; None where a meter has no value.

    A dimension is measured on the kinds of source that can carry it, where its meter is sure, and wherever it's held or linked.
    """
    swept, kind = BY_NAME[row["dimension"]], row["source_kind"]
    half: dict[str, float | None] = {}
    for name, (other, how) in MEASURES.items():
        change = float("nan")
        if kind in other.max_span or {name, other.name} & {*swept.holds, *swept.linked}:
            change = _moved(up, down, how, swept.warps_time, row["active_start_s"], row["active_end_s"]) / 2.0 / other.jnd.on(kind)
        half[name] = float(change) if np.isfinite(change) else None
    return {"dimension": swept.name, "source_kind": kind, "tier": row["tier"], "change_jnd": half}


def _moved(up: Sound, down: Sound, how: HeldBy, warps_time: bool, start_s: float, end_s: float) -> float:
    """Rising clip against falling one from first to last third; moment by moment where a sweep leaves moments where they are."""
    first, second = how.contour(up), how.contour(down)
    if not warps_time:
        return statistics.moved(first, second, None, start_s, end_s, how.factor_per_ten)
    if how.factor_per_ten is not None:
        contrasts = [statistics.level_contrast(contour, start_s, end_s, how.factor_per_ten) for contour in (first, second)]
    else:
        contrasts = [statistics.mean_contrast(statistics.smooth(contour), start_s, end_s) for contour in (first, second)]
    return contrasts[0] - contrasts[1]


# -- the whole --------------------------------------------------------------------------------------------------------


def _leaks(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Swept x measured: median and 95th percentile of |change|, and the mean in the direction of the label, in J."""
    found = []
    for swept in _in_order(change["dimension"] for change in changes):
        mine = [change["change_jnd"] for change in changes if change["dimension"] == swept]
        for name, (other, _) in MEASURES.items():
            moved: FloatArray = np.array([change[name] for change in mine if change[name] is not None], dtype=np.float64)
            found.append(
                {
                    "swept": swept,
                    "measured": name,
                    "linked": bool({name, other.name} & set(BY_NAME[swept].linked)),
                    "n_pairs": len(mine),
                    "n_measured": len(moved),
                    "mean_jnd": round(float(np.mean(moved)), 4) if moved.size else None,
                    "median_jnd": round(float(np.median(np.abs(moved))), 4) if moved.size else None,
                    "p95_jnd": round(float(np.percentile(np.abs(moved), 95)), 4) if moved.size else None,
                }
            )
    return found


def _in_order(names: Iterable[str]) -> list[str]:
    """The dimensions among some names, in the order of `DIMENSIONS`."""
    there = set(names)
    return [dimension.name for dimension in DIMENSIONS if dimension.name in there]


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


def _silence(clips: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How well lead-in minus lead-out silence tells rising from falling, per dimension: AUC with a 95 % interval over sources."""
    found = []
    for name in _in_order(clip["dimension"] for clip in clips):
        mine = [clip for clip in clips if clip["dimension"] == name]
        low, high = _auc_interval(mine)
        found.append({"dimension": name, "auc": round(_auc(mine), 4), "low": round(low, 4), "high": round(high, 4), "n_clips": len(mine)})
    return found


def _auc(clips: Sequence[Mapping[str, Any]]) -> float:
    up, down = ([clip["lead_minus_tail_s"] for clip in clips if clip["direction"] == direction] for direction in (0, 1))
    return float(stats.mannwhitneyu(up, down).statistic / (len(up) * len(down)))


def _auc_interval(clips: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Percentile bootstrap over sources: clips of one source aren't independent."""
    by_source: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for clip in clips:
        by_source[clip["source_id"]].append(clip)
    sources = [by_source[key] for key in sorted(by_source)]
    rng = np.random.default_rng(1)
    draws = (rng.integers(0, len(sources), len(sources)) for _ in range(N_BOOTSTRAP))
    drawn = [_auc([clip for i in draw for clip in sources[i]]) for draw in draws]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _facts(clips: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Figures against which other ways of making such clips can be held."""
    pairs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for clip in clips:
        pairs[clip["pair_id"]].append(clip)
    swept = [cell for cell in manifest["cells"] if cell["curve"] != "flat"]
    curves: Counter[tuple[str, str, int]] = Counter((clip["dimension"], clip["curve"], clip["direction"]) for clip in clips)
    loudness = [abs(clip["leak_jnd"]["loudness"]) for clip in clips if clip["leak_jnd"]["loudness"] is not None]
    return {
        "clips": len(clips),
        "pairs_tried": sum(cell["tried"] for cell in swept),
        "pairs_published": sum(cell["published"] for cell in swept),
        "pairs_rejected_as_contradicted": sum(cell["rejected"].get("contradicted", 0) for cell in swept),
        "published_contradicted": sum(clip["effect"] * (1 if clip["direction"] == 0 else -1) <= 0.0 for clip in clips),
        "pairs_of_unequal_length": sum(len({clip["n_samples"] for clip in mine}) > 1 for mine in pairs.values()),
        "samples_at_full_scale": sum(clip["at_full_scale"] for clip in clips),
        "largest_peak_dbfs": round(max(clip["peak_dbfs"] for clip in clips), 3),
        "loudness_leak_max_jnd": round(max(loudness), 4) if loudness else None,
        "curve_by_direction_unequal": sum(count != curves[key[0], key[1], 1 - key[2]] for key, count in curves.items()),
    }


def _gates(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """What must hold, each with one line for every place where it doesn't."""
    leaks = [
        f"{leak['swept']} moves {leak['measured']}: 95th percentile {leak['p95_jnd']:.2f} J over {leak['n_measured']} pairs, "
        f"at most {MAX_LEAK_JND:g} J is allowed; hold it, or declare it linked"
        for leak in report["leaks"]
        if leak["swept"] != MEASURES[leak["measured"]][0].name and not leak["linked"] and (leak["p95_jnd"] or 0.0) >= MAX_LEAK_JND
    ]
    silence = [
        f"{item['dimension']}: silence at the ends tells the direction: AUC {item['auc']:.2f} ({item['low']:.2f} to {item['high']:.2f})"
        for item in report["silence"]
        if not item["low"] <= 0.5 <= item["high"]
    ]
    empty = [
        f"{row['dimension']} x {row['tier']} x {row['kind']}: nothing is published" for row in report["yields"] if row["published"] == 0
    ]
    return {
        f"nothing moves by {MAX_LEAK_JND:g} J but what is swept or linked": leaks,
        "silence at the ends tells no direction": silence,
        "every tier is published on every kind of source that has it": empty,
    } | {demand: _must_be_zero(report["facts"], key) for key, demand in ZERO_FACTS.items()}


def _must_be_zero(facts: Mapping[str, Any], key: str) -> list[str]:
    return [f"{key.replace('_', ' ')}: {facts[key]}, must be 0"] if facts[key] else []


# -- as text ----------------------------------------------------------------------------------------------------------


def text(report: Mapping[str, Any]) -> str:
    """The report for people: yields, leakage matrix, silence, facts, failures."""
    parts = [_yields_text(report["yields"]), _leaks_text(report["leaks"]), _silence_text(report["silence"])]
    parts.append("\n".join(f"{key.replace('_', ' '):<34}{value}" for key, value in report["facts"].items()))
    failures = report["failures"]
    parts.append("audit passes" if not failures else "\n".join([f"audit fails in {len(failures)} points:", *failures]))
    return "\n\n".join(parts)


def _yields_text(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{'dimension':<15}{'source':<17}{'tier':<9}{'tried':>6}{'published':>11}  rejected by reason"]
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row["rejected"].items())
        lines.append(f"{row['dimension']:<15}{row['kind']:<17}{row['tier']:<9}{row['tried']:>6}{row['published']:>11}  {reasons}")
    return "\n".join(lines)


def _leaks_text(leaks: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(leak["measured"] for leak in leaks))
    lines = [
        "what a sweep moves, in J: median and 95th percentile of |change|; () linked, - not measurable",
        f"{'swept':<15}" + "".join(f"{name[:10]:>12}" for name in columns),
    ]
    for swept in _in_order(leak["swept"] for leak in leaks):
        mine = {leak["measured"]: leak for leak in leaks if leak["swept"] == swept}
        lines.append(f"{swept:<15}" + "".join(f"{_leak_text(mine[name]):>12}" for name in columns))
    return "\n".join(lines)


def _leak_text(leak: Mapping[str, Any]) -> str:
    if leak["p95_jnd"] is None:
        return "-"
    figure = f"{leak['median_jnd']:.1f} {leak['p95_jnd']:.1f}"
    return f"[{figure}]" if leak["swept"] == MEASURES[leak["measured"]][0].name else f"({figure})" if leak["linked"] else figure


def _silence_text(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["lead-in minus lead-out silence, AUC of rising against falling (95 % interval over sources)"]
    lines += [f"{row['dimension']:<15}{row['auc']:.2f} ({row['low']:.2f} to {row['high']:.2f})" for row in rows]
    return "\n".join(lines)
