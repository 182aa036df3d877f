"""The audit's report as text, for people in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builder import cues, shortcuts
from builder.dimensions import DIMENSIONS, MEASURES
from builder.words import counted

Row = Mapping[str, Any]


def text(report: Mapping[str, Any]) -> str:
    """Yields, truth, leakage matrix, silence, shortcuts, duplicates, difficulty, facts, tests, failures."""
    parts = [
        _yields(report["yields"]),
        _truth(report["truth"]),
        _imposed(report["imposed"]),
        _leaks(report["leaks"]),
        _middles(report["middles"]),
        _silence(report["silence"]),
        _shortcuts(report["shortcuts"]),
        _duplicates(report["duplicates"]),
        _difficulty(report["difficulty"]),
        "\n".join(f"{key.replace('_', ' '):<34}{value}" for key, value in report["facts"].items()),
        _tests(report["tests"], report["false_alarm"]),
    ]
    failures = report["failures"]
    parts.append("audit passes" if not failures else "\n".join([f"audit fails in {counted(len(failures), 'point')}:", *failures]))
    return "\n\n".join(parts)


def _yields(rows: Sequence[Row]) -> str:
    lines = [f"{'dimension':<15}{'source':<17}{'tier':<9}{'tried':>6}{'published':>11}  rejected by reason"]
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row["rejected"].items())
        lines.append(f"{row['dimension']:<15}{row['kind']:<17}{row['tier']:<9}{row['tried']:>6}{row['published']:>11}  {reasons}")
    return "\n".join(lines)


def _truth(rows: Sequence[Row]) -> str:
    """Per dimension, the share of clips of which each listener says the label, how many of which the opposite, and the weakest clip."""
    whole = [row for row in rows if row["by"] == "all"]
    names = [key.removesuffix("_agrees") for key in whole[0] if key.endswith("_agrees")] if whole else []
    lines = ["what listeners say of the label: share that agrees, clips that contradict", f"{'dimension':<15}{'clips':>6}"]
    lines[1] += "".join(f"{name:>19}" for name in names) + "   least J and rank by the rule"
    for row in whole:
        figures = (_said_by(name, row) for name in names)
        least = [row.get("rule_least_jnd"), row.get("rule_least_rank")]
        weakest = "from parts" if None in least else " ".join(f"{value:>6.2f}" for value in least)
        lines.append(f"{row['dimension']:<15}{row['n_clips']:>6}" + "".join(f"{figure:>19}" for figure in figures) + f"   {weakest}")
    return "\n".join(lines)


def _said_by(name: str, row: Row) -> str:
    agrees = row[f"{name}_agrees"]
    return f"no {name} measure" if agrees is None else f"{agrees:.1%} {row[f'{name}_contradicts']:>4}"


def _imposed(rows: Sequence[Row]) -> str:
    lines = [
        "had labels only been imposed on raw speech: share of clips whose slope goes the other way (95 % interval over sources),",
        "and of which the labelling rule hears the opposite, or nothing",
        f"{'dimension':<15}{'tier':<9}{'clips':>6}{'sources':>9}  {'slope opposite':<22}{'rule opposite':>14}{'nothing':>9}",
    ]
    for row in rows:
        if row["n_clips"]:
            slope = f"{row['slope_opposite']:.1%} ({row['slope_opposite_low']:.1%} to {row['slope_opposite_high']:.1%})"
            lines.append(
                f"{row['dimension']:<15}{row['tier']:<9}{row['n_clips']:>6}{row['n_sources']:>9}  {slope:<22}"
                f"{row['rule_opposite']:>14.1%}{row['rule_silent']:>9.1%}"
            )
    return "\n".join(lines) if rows else "no running speech: nothing to say of imposed labels"


def _leaks(leaks: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(leak["measured"] for leak in leaks))
    lines = [
        "what a sweep moves, in J: median and 95th percentile of |change|; () linked, - not measurable",
        f"{'swept':<15}" + "".join(f"{name[:10]:>12}" for name in columns),
    ]
    there = {leak["swept"] for leak in leaks}
    for swept in (dimension.name for dimension in DIMENSIONS if dimension.name in there):
        mine = {leak["measured"]: leak for leak in leaks if leak["swept"] == swept}
        lines.append(f"{swept:<15}" + "".join(f"{_leak(mine[name]):>12}" for name in columns))
    return "\n".join(lines)


def _leak(leak: Row) -> str:
    if leak["p95_jnd"] is None:
        return "-"
    figure = f"{leak['median_jnd']:.1f} {leak['p95_jnd']:.1f}"
    return f"[{figure}]" if leak["swept"] == MEASURES[leak["measured"]][0].name else f"({figure})" if leak["linked"] else figure


def _middles(rows: Sequence[Row]) -> str:
    figures = (f"{row['dimension']} {row['p95_jnd']:.2f}" for row in rows if row["n_pairs"])
    return "how far the two clips of a pair lie off their common middle, 95th percentile in J: " + ", ".join(figures)


def _silence(rows: Sequence[Row]) -> str:
    lines = ["lead-in minus lead-out silence, rising against falling: AUC, mean difference over sources, and its p-value"]
    for row in rows:
        mean = "-" if row["mean_s"] is None else f"{1000.0 * row['mean_s']:+.1f} ms"
        lines.append(f"{row['dimension']:<15}{row['auc']:.2f} {mean:>10}   p = {row['p']:.2g}")
    return "\n".join(lines)


def _shortcuts(results: Sequence[Row]) -> str:
    """Of each dimension the gated cue that comes nearest to failing, and the better classifier of each reported cue."""
    lines = [
        "what a classifier tells of the direction by what shouldn't tell it: balanced accuracy, 95 % interval over groups, and p-value",
        f"{'dimension':<15}{'worst cue':<13}{'classifier':<10}{'clips':>6}  {'accuracy':<22}{'p':>7}   "
        + "".join(f"{cue.replace('_', ' '):<13}" for cue in cues.REPORTED),
    ]
    for name in [*(dimension.name for dimension in DIMENSIONS), shortcuts.ALL]:
        mine = [result for result in results if result["dimension"] == name]
        tried = [result for result in mine if result["cue"] in cues.GATED]
        if not tried:
            continue
        worst = min(tried, key=lambda result: (result["p"], -result["accuracy"]))
        halves = (max((result["accuracy"] for result in mine if result["cue"] == cue), default=float("nan")) for cue in cues.REPORTED)
        interval = f"{worst['accuracy']:.3f} ({worst['low']:.3f} to {worst['high']:.3f})"
        lines.append(
            f"{name:<15}{worst['cue']:<13}{worst['classifier']:<10}{worst['n_clips']:>6}  {interval:<22}{worst['p']:>7.1g}   "
            + "".join(f"{accuracy:<13.3f}" for accuracy in halves)
        )
    return "\n".join(lines)


def _tests(tests: Sequence[Row], false_alarm: float) -> str:
    """How many hypotheses each gate has, and their least p-value."""
    n_tested = sum(row["hypotheses"] for row in tests)
    lines = [f"{n_tested} comparisons with a limit; where all limits are kept, chance closes a gate in {false_alarm:.1%} of audits at most"]
    for row in tests:
        least = "" if row["least_p"] is None else f"{row['least_p']:.2g}"
        lines.append(f"{row['hypotheses']:>5}  least p {least:<9}{row['gate']}")
    return "\n".join(lines)


def _duplicates(found: Row) -> str:
    return (
        f"across splits: audio alike {counted(found['audio'], 'time')} (of {counted(found['candidates'], 'candidate')} by fingerprint), "
        f"{found['texts_shared']} of {counted(found['texts'], 'text')} shared"
    )


def _difficulty(cells: Sequence[Row]) -> str:
    """Each dimension x tier; percentiles are means over its cells, the margin is the least."""
    lines = [
        "reached in J: 10th percentile, median, 90th of |effect|; what the weakest clip has above the least allowed",
        f"{'dimension':<15}{'tier':<9}{'clips':>6}{'planned':>9}{'low':>7}{'median':>8}{'high':>7}{'margin':>8}",
    ]
    for name, tier in dict.fromkeys((cell["dimension"], cell["tier"]) for cell in cells):
        mine = [cell for cell in cells if (cell["dimension"], cell["tier"]) == (name, tier)]
        n_clips = [cell["n_clips"] for cell in mine]
        keys = ("planned_jnd", "effect_low_jnd", "effect_median_jnd", "effect_high_jnd")
        planned, low, median, high = (np.average([cell[key] for cell in mine], weights=n_clips) for key in keys)
        margin = min(cell["margin_jnd"] for cell in mine)
        lines.append(f"{name:<15}{tier:<9}{sum(n_clips):>6}{planned:>9.2f}{low:>7.2f}{median:>8.2f}{high:>7.2f}{margin:>8.2f}")
    return "\n".join(lines)
