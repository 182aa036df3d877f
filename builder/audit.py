"""Is the science right? Reads a built dataset as a stranger would, and measures what else than the label's property tells it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builder import alike, cues, examined, hypotheses, leakage, middles, places, printout, shortcuts, silence, truth
from builder.dimensions import MEASURES
from builder.engines import Map, Step, unseen
from builder.examined import Examined
from builder.hypotheses import Hypothesis
from builder.layout import write_json
from builder.records import CONTROLS, FloatArray
from builder.sample import Sample
from builder.words import counted

MAX_LINES = 10
"""Failures of one sort that are listed one by one."""
NEVER_CONTRADICTED = "the labelling rule, asked again of the published sound, never contradicts a label"
BALANCED = "every cell has as many rising as falling clips"
REACHED = "every tier has published pairs on every kind of source that carries it"
ZERO_FACTS = {
    "effects_against_label": ("every published effect has the sign of its label", "published effects against their label"),
    "pairs_of_unequal_length": ("both clips of a pair are equally long", "pairs of unequal length"),
    "samples_at_full_scale": ("no sample is at full scale", "samples at full scale"),
    "answer_order_unequal": (
        "in each dimension and split the first choice is right as often as the second",
        "counts of right first choices that differ from those of second ones, by dimension and split",
    ),
}
"""Facts that must be 0: the gate that each closes, and what is counted."""
Clip = Mapping[str, Any]

text = printout.text


def run(
    root: Path,
    manifest: Mapping[str, Any],
    n_pairs: int,
    each: Map = map,
    listeners: Mapping[str, truth.Listener] | None = None,
    step: Step = unseen,
) -> dict[str, Any]:
    """Audit a dataset and write `audit/audit.json` into it.

    Parameters
    ----------
    root, manifest
        The dataset.
    n_pairs
        Pairs per dimension of which every dimension is measured at first, spread over splits, kinds, tiers and curves. A dimension whose
        pairs leave a doubt is measured on up to sixteen times as many, see `hypotheses`.
    each
        `map`, or that of an executor.
    listeners
        Who is asked what every clip says, by name; the one named `rule` must never contradict a label.
    step
        Shows how far each step is.

    Returns
    -------
    dict
        `truth`, `imposed`, `leaks`, `middles`, `yields`, `silence`, `shortcuts`, `duplicates`, `unbalanced`, `difficulty`, `facts`,
        `tests` (how many hypotheses each gate has, and their least p-value), `false_alarm`, `gates`, `failures` (one line each; empty
        if it passes), JSON-able.
    """
    swept = [item["shard"] for item in manifest["shards"] if not item["shard"].startswith(f"{CONTROLS}/")]
    sample = Sample(root, swept, n_pairs)
    examine = partial(examined.shard, root, listeners=dict(listeners or {}), sex=manifest["sources"]["sex"])
    with step("audit", sum(item["n_rows"] for item in manifest["shards"] if item["shard"] in set(swept)), "clip"):
        found = examined.together(each(examine, swept, [sample.first[name] for name in swept]))
    blind = _shortcuts(found, each, step)
    silences = [
        silence.row(name, clips["lead_minus_tail_s"].to_numpy(), clips["direction"].to_numpy(), clips["source_id"].to_pylist())
        for name, clips in found.clips.items()
    ]
    report: dict[str, Any] = {}

    def family() -> list[Hypothesis]:
        report["leaks"] = leakage.matrix(found.changes)
        report["middles"] = middles.table([(change["dimension"], change["source_id"], change["gap_jnd"]) for change in found.changes])
        return [
            *leakage.hypotheses_of(report["leaks"]),
            *middles.hypotheses_of(report["middles"]),
            *silence.hypotheses_of(silences),
            *shortcuts.hypotheses_of(blind, cues.GATED),
        ]

    def enlarge(doubtful: set[str]) -> bool:
        more = sample.more(doubtful)
        if not more:
            return False
        with step("pairs", sum(map(len, more.values())), "pair"):
            for changes in each(partial(examined.measured_pairs, root), list(more), list(more.values())):
                found.changes += changes
        return True

    tested = hypotheses.settled(family, enlarge)
    report = {
        "release": manifest["release"],
        "manifest_sha256": hashlib.sha256(places.content(root / "manifest.json")).hexdigest(),
        "pairs_per_dimension": n_pairs,
        "truth": truth.table(found.counts),
        "imposed": truth.imposed(manifest["imposed"]),
        **report,
        "silence": silences,
        "shortcuts": blind,
        "yields": _yields(manifest),
        "duplicates": alike.table(root, found, step),
        "unbalanced": _unbalanced(found),
        "difficulty": _difficulty(found, manifest),
        "facts": _facts(found, manifest),
        "false_alarm": hypotheses.FALSE_ALARM,
        "tests": _tests(tested),
    }
    report["gates"] = {**_factual_gates(report, found.contradicted), **_statistical_gates(tested)}
    report["failures"] = [line for lines in report["gates"].values() for line in lines]
    write_json(report, root / "audit" / "audit.json")
    return report


# -- what a classifier tells ------------------------------------------------------------------------------------------


def _shortcuts(found: Examined, each: Map, step: Step) -> list[shortcuts.Result]:
    """How well each cue tells the direction, per dimension and on average; groups are speakers, or sources where nobody speaks."""
    fine: dict[str, dict[tuple[str, int], FloatArray]] = {name: {} for name in found.clips}
    for change in found.changes:
        fine[change["dimension"]] |= {(change["pair_id"], side): _others(change, side) for side in (0, 1)}
    with step("cues", len(found.clips) * (len(examined.CUES) + len(cues.SAMPLED)), "cue"):
        judged = each(_judged, list(found.clips), list(found.clips.values()), list(fine.values()))
        results = [result for mine in judged for result in mine]
    return [*results, *shortcuts.means(results)]


def _judged(dimension: str, clips: pa.Table, fine: Mapping[tuple[str, int], FloatArray]) -> list[shortcuts.Result]:
    """All cues of a dimension; `fine` is what the other dimensions do in the clips that were measured in full."""
    mine = [fine.get(key) for key in zip(clips["pair_id"].to_pylist(), clips["direction"].to_pylist(), strict=True)]
    audible = [None if contrast is None else cues.beyond_one_j(contrast) for contrast in mine]
    tables = {name: examined.features(clips, name) for name in examined.CUES} | dict(zip(cues.SAMPLED, (audible, mine), strict=True))
    groups = [speaker or source for speaker, source in zip(*(clips[name].to_pylist() for name in ("speaker_id", "source_id")), strict=True)]
    return shortcuts.judge(dimension, clips["direction"].to_pylist(), groups, tables)


def _others(change: Mapping[str, Any], side: int) -> FloatArray:
    """How far one clip of a pair moves, by itself, in every dimension that must hold still."""
    held = [name for name in MEASURES if leakage.must_hold(change["dimension"], name)]
    return np.array([change["contrast_jnd"][name][side] for name in held], dtype=np.float64)


# -- tables -----------------------------------------------------------------------------------------------------------


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


def _unbalanced(found: Examined) -> list[dict[str, Any]]:
    """Cells with more clips of one direction than of the other."""
    keys = ("dimension", "tier", "curve", "source_kind", "split")
    counts = found.counted(*keys, "direction")
    sides = {cell: [counts.get((*cell, direction), 0) for direction in (0, 1)] for cell in dict.fromkeys(key[:-1] for key in counts)}
    return [
        {**dict(zip(keys, cell, strict=True)), "rising": rising, "falling": falling}
        for cell, (rising, falling) in sides.items()
        if rising != falling
    ]


def _difficulty(found: Examined, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was planned and what was reached, in J, for every dimension x tier x curve x kind; the plainest figure of how hard it is.

    `asked_jnd` is the least that the label rule asks, `margin_jnd` what the weakest clip has above it; `residual_jnd` is the median
    standard deviation of a clip's contour about the plan: the movement from which the change stands out.
    """
    margins = {item["dimension"]: item["margins"] for item in manifest["recipe"]["dimensions"]}
    keys = ("dimension", "tier", "curve", "source_kind")
    figures = ("effect_jnd", "planned_jnd", "salience", "residual_jnd")
    rows = []
    cells = (item for clips in found.clips.values() for item in _grouped(clips.select([*keys, *figures]).to_pylist(), *keys).items())
    for cell, mine in cells:
        effect = np.abs([clip["effect_jnd"] for clip in mine])
        planned_jnd = float(np.median([clip["planned_jnd"] for clip in mine]))
        asked = max(margins[cell[0]]["min_contrast_jnd"], margins[cell[0]]["min_share_of_plan"] * planned_jnd)
        low, median, high = np.percentile(effect, [10.0, 50.0, 90.0])
        salience = [clip["salience"] for clip in mine if clip["salience"] is not None]
        rows.append(
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
    return rows


def _facts(found: Examined, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Figures against which other ways of making such clips can be held."""
    swept = [cell for cell in manifest["cells"] if cell["curve"] != "flat"]
    clips = found.whole("effect", "direction", "at_full_scale", "peak_dbfs", "loudness_leak_jnd")
    loudest = pc.max(pc.abs(clips["loudness_leak_jnd"])).as_py()
    lengths = [clips.group_by("pair_id").aggregate([("n_samples", "count_distinct")]) for clips in found.clips.values()]
    return {
        "clips": len(clips),
        "pairs_tried": sum(cell["tried"] for cell in swept),
        "pairs_published": sum(cell["published"] for cell in swept),
        "pairs_rejected_as_contradicted": sum(cell["rejected"].get("contradicted", 0) for cell in swept),
        "effects_against_label": int(np.sum(clips["effect"].to_numpy() * (1 - 2 * clips["direction"].to_numpy()) <= 0.0)),
        "pairs_of_unequal_length": sum(int(np.sum(length["n_samples_count_distinct"].to_numpy() > 1)) for length in lengths),
        "samples_at_full_scale": pc.sum(clips["at_full_scale"]).as_py(),
        "largest_peak_dbfs": round(pc.max(clips["peak_dbfs"]).as_py(), 3),
        "loudness_leak_max_jnd": None if loudest is None else round(loudest, 4),
        "curve_by_direction_unequal": _unequal(found, "dimension", "curve", "direction"),
        "answer_order_unequal": _unequal(found, "dimension", "split", "answer_index"),
    }


def _unequal(found: Examined, *keys: str) -> int:
    """Of how many combinations of keys there are not as many clips as of the same with the last key, 0 or 1, the other way."""
    counts = found.counted(*keys)
    return sum(count != counts.get((*key[:-1], 1 - key[-1]), 0) for key, count in counts.items())


# -- the verdict ------------------------------------------------------------------------------------------------------


def _tests(tested: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """Of each gate that rests on statistics how many `hypotheses` it has, and their `least_p`."""
    return [
        {"gate": gate, "hypotheses": len(mine), "least_p": min(mine, default=None)}
        for gate in (leakage.GATE, middles.GATE, silence.GATE, shortcuts.GATE)
        for mine in [[hypothesis.p for hypothesis in tested if hypothesis.gate == gate]]
    ]


def _statistical_gates(tested: Sequence[Hypothesis]) -> dict[str, list[str]]:
    """Gates that rest on statistics, each with one line for every hypothesis that is rejected among all of the audit's."""
    gates: dict[str, list[str]] = {gate: [] for gate in (leakage.GATE, middles.GATE, silence.GATE, shortcuts.GATE)}
    for hypothesis in hypotheses.rejected(tested):
        gates[hypothesis.gate].append(hypothesis.line)
    return gates


def _factual_gates(report: Mapping[str, Any], contradicted: Sequence[str]) -> dict[str, list[str]]:
    """Gates that rest on counts, each with one line for every place where what must hold doesn't."""
    facts = report["facts"]
    empty = [row for row in report["yields"] if row["published"] == 0]
    return {
        NEVER_CONTRADICTED: _some(contradicted, "clip"),
        alike.GATE: list(alike.failures(report["duplicates"])),
        BALANCED: _some([_unbalanced_failure(cell) for cell in report["unbalanced"]], "cell"),
        REACHED: [f"{row['dimension']} x {row['tier']} x {row['kind']}: nothing is published" for row in empty],
        **{gate: [f"{what}: {facts[key]}, must be 0"] if facts[key] else [] for key, (gate, what) in ZERO_FACTS.items()},
    }


def _some(lines: Sequence[str], what: str) -> list[str]:
    """The first lines, and how many more there are."""
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], *([f"... and {counted(more, f'more {what}')}"] if more > 0 else [])]


def _unbalanced_failure(cell: Mapping[str, Any]) -> str:
    what = " x ".join(cell[key] for key in ("dimension", "tier", "curve", "source_kind", "split"))
    return f"{what}: {cell['rising']} rising and {counted(cell['falling'], 'falling clip')}, must be as many"
