"""The audit's report: one HTML page for people, with everything in it, sounds too; it opens from a file and needs no network.

Beside the figures of `audit.json` it shows, for each dimension, what it is, how far its effects came, some published pairs to
look at and to hear, and what was rejected with its reason. The same dataset and the same audit give the same bytes.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from builder import places
from builder.acoustics import curves
from builder.dimensions import BY_NAME, DIMENSIONS, MEASURES
from builder.keys import rank_of
from builder.layout import read_rows, split_of, write_text
from builder.recipe import SPEECH_KINDS
from builder.records import FloatArray

TEMPLATE = Path(__file__).parent.parent / "data_cards" / "report.html.j2"
N_PAIRS = 3
"""Pairs of a dimension on the page, each on another kind of source."""
MAX_SOUND_BYTES = 4_000_000
"""Of all FLAC on the page, shared by the dimensions; base64 makes a third more of it."""
SMALLEST_SHARE, AT_LEAST = 1.0 / 3.0, 4
"""Of a kind's pairs by size of file: those among which chance chooses."""
N_REJECTED = 3
"""Rejected examples of a dimension under one reason."""
SHADES_JND = (0.25, 0.5, 0.8, 1.0, 2.0, 4.0)
"""Where the heat map's colour changes."""
KNOWN = (
    "release",
    "manifest_sha256",
    "pairs_per_dimension",
    "imposed",
    "leaks",
    "yields",
    "silence",
    "tests",
    "false_alarm",
    "facts",
    "difficulty",
    "gates",
    "failures",
)
"""Sections of the audit with a form of their own here; every other one is shown as a table."""
COLUMNS = [
    "id", "audio", "question", "answer", "direction", "dimension", "tier", "curve", "pair_id", "source_kind", "speaker_id", "duration_s",
    "active_start_s", "active_end_s", "span", "unit", "effect", "effect_jnd", "rank_correlation", "difference_gain", "difference_r_squared",
    "witness", "witness_effect", "leak_jnd", "contour_time_s", "contour_value", "contour_sham", "label_basis", "licence", "attribution",
]  # fmt: skip
CONTOUR_SIZE, CONTOUR_BOX = (480, 200), (52, 8, 460, 174)
CHART_SIZE, CHART_BOX = (240, 176), (34, 10, 234, 150)
"""Of a drawing, in its own units: width and height; left, top, right and bottom of what is plotted."""


def write(root: Path, manifest: Mapping[str, Any], report: Mapping[str, Any], target: Path) -> None:
    """Write the page.

    Parameters
    ----------
    root, manifest
        The dataset.
    report
        What `audit.run` returned; sections that it lacks are left out.
    target
        HTML file to write.
    """
    loader = jinja2.FileSystemLoader(TEMPLATE.parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals["number"] = _number
    page = environment.get_template(TEMPLATE.name).render(
        manifest=manifest,
        facts=report.get("facts") or {},
        failures=report.get("failures") or [],
        gates=report.get("gates") or {},
        tests={row["gate"]: row["hypotheses"] for row in report.get("tests") or []},
        false_alarm=report.get("false_alarm"),
        yields=_yields(report.get("yields") or []),
        heat=_heat(report.get("leaks") or [], report.get("failures") or []),
        n_measured=report.get("pairs_per_dimension"),
        shades=SHADES_JND,
        contour_size=CONTOUR_SIZE,
        contour_box=CONTOUR_BOX,
        chart_size=CHART_SIZE,
        chart_box=CHART_BOX,
        panels=_panels(root, manifest, report),
        silence=report.get("silence") or [],
        imposed=report.get("imposed") or [],
        further=[(key, _table(report[key])) for key in report if key not in KNOWN],
    )
    write_text(page, target)


# -- the whole dataset ------------------------------------------------------------------------------------------------


def _yields(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Tiers, and for each dimension and kind one row of cells in their order; controls last."""
    tiers = sorted(dict.fromkeys(row["tier"] for row in rows), key=lambda tier: tier == "control")
    cells = {(row["dimension"], row["kind"], row["tier"]): row for row in rows}
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, kind in dict.fromkeys((row["dimension"], row["kind"]) for row in rows):
        grouped[name].append({"kind": kind, "cells": [cells.get((name, kind, tier)) for tier in tiers]})
    return {"tiers": tiers, "dimensions": dict(grouped)}


def _heat(leaks: Sequence[Mapping[str, Any]], failures: Sequence[str]) -> dict[str, Any]:
    """The leakage matrix: measures across, and for each swept dimension its cells, each with its state and its shade."""
    measures = list(dict.fromkeys(leak["measured"] for leak in leaks))
    rows: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for leak in leaks:
        rows[leak["swept"]][leak["measured"]] = {**leak, "state": _state(leak, failures), "shade": _shade(leak["p95_jnd"])}
    return {"measures": measures, "rows": dict(rows)}


def _state(leak: Mapping[str, Any], failures: Sequence[str]) -> str:
    """What a cell of the matrix is; whether it's beyond the limits is the audit's own word."""
    if leak["p95_jnd"] is None:
        return "nothing"
    if leak["swept"] == MEASURES[leak["measured"]][0].name:
        return "swept"
    if leak["linked"]:
        return "linked"
    return "beyond" if any(line.startswith(f"{leak['swept']} moves {leak['measured']}: ") for line in failures) else "held"


def _shade(p95_jnd: float | None) -> int:
    return 0 if p95_jnd is None else sum(p95_jnd >= limit for limit in SHADES_JND)


def _table(section: Any) -> dict[str, Any]:
    """Any section of the audit as columns and rows of text."""
    rows: list[Mapping[str, Any]]
    if isinstance(section, Mapping):
        rows = [{"name": key, **(value if isinstance(value, Mapping) else {"value": value})} for key, value in section.items()]
    else:
        values = section if isinstance(section, list) else [section]
        rows = [value if isinstance(value, Mapping) else {"value": value} for value in values]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return {"columns": columns, "rows": [[_said(row.get(column)) for column in columns] for row in rows]}


def _number(value: float | None, form: str = "%.2f") -> str:
    """A number for people: a dash for none, a minus sign, and no sign of a zero."""
    text = "–" if value is None else form % value
    if value is not None and float(text) == 0.0:
        text = form.replace("+", "") % 0.0
    return text.replace("-", "−")


def _said(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _rejected(root: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Some rejected examples by dimension and reason, from the reports of the shards."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for name in places.names(root / "reports"):
        for reason, examples in json.loads(places.text(root / "reports" / name)).get("rejected_examples", {}).items():
            for example in examples:
                mine = found[example["plan"]["dimension"]][reason]
                if len(mine) < N_REJECTED:
                    mine.append(example)
    return found


# -- one dimension ----------------------------------------------------------------------------------------------------


def _panels(root: Path, manifest: Mapping[str, Any], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the page says of each dimension; bytes of sound that one leaves are the next one's."""
    there = {cell["dimension"] for cell in manifest["cells"]}
    names = [dimension.name for dimension in DIMENSIONS if dimension.name in there]
    rejected = _rejected(root)
    panels: list[dict[str, Any]] = []
    spent = 0
    for number, name in enumerate(names, 1):
        pairs = _chosen(_pairs(root, manifest, name), manifest["release"], MAX_SOUND_BYTES * number / len(names) - spent)
        spent += sum(map(_size, pairs))
        panels.append({**_panel(manifest, report, name), "pairs": [_shown(pair) for pair in pairs], "rejected": rejected[name]})
    return panels


def _panel(manifest: Mapping[str, Any], report: Mapping[str, Any], name: str) -> dict[str, Any]:
    dimension = BY_NAME[name]
    swept = [cell for cell in manifest["cells"] if cell["dimension"] == name and cell["curve"] != "flat"]
    achieved = [row for row in report.get("difficulty") or [] if row["dimension"] == name]
    return {
        "dimension": dimension,
        "question": dimension.question.format(noun=dimension.noun, first=dimension.answers[0], second=dimension.answers[1]),
        "tried": sum(cell["tried"] for cell in swept),
        "published": sum(cell["published"] for cell in swept),
        "achieved": achieved,
        "charts": _charts(achieved),
    }


def _pairs(root: Path, manifest: Mapping[str, Any], name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(rising, falling) rows of one shard of a dimension: of its test split, if there is one."""
    shards = [item["shard"] for item in manifest["shards"] if item["shard"].startswith(f"{name}/") and item["n_rows"]]
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for shard in sorted(shards, key=lambda shard: split_of(shard) != "test")[:1]:
        for row in read_rows(root, shard, COLUMNS):
            found[row["pair_id"]][row["direction"]] = row
    return [(pair[0], pair[1]) for pair in found.values()]


def _chosen(
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], release: str, max_bytes: float
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """At most `N_PAIRS`, drawn by the release among the smaller ones of each kind; kinds, a real one first, tiers and curves take turns."""
    left = max_bytes
    chosen: list[tuple[dict[str, Any], dict[str, Any]]] = []
    kinds = sorted({up["source_kind"] for up, _ in pairs}, key=lambda kind: rank_of("report", release, pairs[0][0]["dimension"], kind))
    real = [kind for kind in kinds if kind in SPEECH_KINDS][:1]
    for kind in real + [kind for kind in kinds if kind not in real]:
        mine = sorted((pair for pair in pairs if pair[0]["source_kind"] == kind), key=_size)
        mine = mine[: max(AT_LEAST, round(len(mine) * SMALLEST_SHARE))]
        used = [(up["tier"], up["curve"]) for up, _ in chosen]
        pair = min(mine, key=lambda pair: (_repeats(pair[0], used), rank_of("report", release, pair[0]["pair_id"])))
        if len(chosen) < N_PAIRS and (not chosen or _size(pair) <= left):
            chosen.append(pair)
            left -= _size(pair)
    return chosen


def _size(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> int:
    return sum(len(row["audio"]["bytes"]) for row in pair)


def _repeats(row: Mapping[str, Any], used: Sequence[tuple[str, str]]) -> int:
    return sum((row["tier"] == tier) + (row["curve"] == curve) for tier, curve in used)


def _shown(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
    """A pair as the page shows it: what both clips share, and each with its drawing, its sound and its figures."""
    lines = [_lines(row) for row in pair]
    known = np.concatenate([line[np.isfinite(line)] for mine in lines for line in mine.values() if line.ndim == 1])
    low, high = (float(np.min(known)), float(np.max(known))) if known.size else (0.0, 1.0)
    linked = BY_NAME[pair[0]["dimension"]].linked
    clips = [
        {
            **row,
            "sound": base64.b64encode(row["audio"]["bytes"]).decode("ascii"),
            "planned": row["span"] * curves.end_to_start(row["curve"]),
            "drawing": _drawing(row, mine, low, high),
            "leaks": [(name, leak, name in linked) for name, leak in row["leak_jnd"].items() if leak is not None],
        }
        for row, mine in zip(pair, lines, strict=True)
    ]
    return {"shared": pair[0], "clips": clips}


# -- drawings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """A linear scale from values to a drawing's units.

    Parameters
    ----------
    low, high
        Values at its ends.
    at_low, at_high
        Where these lie.
    """

    low: float
    high: float
    at_low: float
    at_high: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        return self.at_low + (value - self.low) / (self.high - self.low) * (self.at_high - self.at_low)

    def ticks(self, at_most: int) -> list[tuple[float, str]]:
        """(place, text) at multiples of 1, 2 or 5 times a power of ten, no more than asked for."""
        rough = (self.high - self.low) / at_most
        power = 10.0 ** np.floor(np.log10(rough))
        step = next(float(power * factor) for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= rough * 0.999)
        numbers = range(int(np.ceil(self.low / step - 1e-9)), int(np.floor(self.high / step + 1e-9)) + 1)
        return [(round(self.at(number * step), 1), f"{number * step:.6g}".replace("-", "−")) for number in numbers]


def _lines(row: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Heard and sham contours at the row's times, and the plan where the sweep bends, put at the heard contour's height."""
    time_s: FloatArray = np.array(row["contour_time_s"], dtype=np.float64)
    heard, sham = (
        np.array([np.nan if value is None else value for value in row[column]], dtype=np.float64)
        for column in ("contour_value", "contour_sham")
    )
    start_s, end_s = row["active_start_s"], row["active_end_s"]
    apart = heard - curves.planned(row["curve"], row["span"], time_s, start_s, end_s)
    centre = float(np.median(apart[np.isfinite(apart)])) if np.isfinite(apart).any() else 0.0
    return {"heard": heard, "sham": sham, "planned": centre + curves.planned(row["curve"], row["span"], _grid_s(row), start_s, end_s)}


def _grid_s(row: Mapping[str, Any]) -> FloatArray:
    """Times of the whole clip, close enough to draw any curve."""
    return np.linspace(0.0, row["duration_s"], 101)


def _drawing(row: Mapping[str, Any], lines: Mapping[str, FloatArray], low: float, high: float) -> dict[str, Any]:
    """Paths and ticks of one clip: heard as dots, the sham as a thin line, the plan as a thick one."""
    left, top, right, bottom = CONTOUR_BOX
    margin = 0.06 * (high - low) or 0.5
    across = Axis(0.0, row["duration_s"], left, right)
    up = Axis(low - margin, high + margin, bottom, top)
    time_s = row["contour_time_s"]
    return {
        "heard": "".join(f"M{across.at(t):.0f} {up.at(v):.1f}h0" for t, v in zip(time_s, lines["heard"], strict=True) if np.isfinite(v)),
        "sham": _path(across, up, time_s, lines["sham"]),
        "planned": _path(across, up, _grid_s(row), lines["planned"]),
        "active": (round(across.at(row["active_start_s"]), 1), round(across.at(row["active_end_s"]), 1)),
        "across": across.ticks(6),
        "up": up.ticks(5),
    }


def _path(across: Axis, up: Axis, time_s: Iterable[float], values: FloatArray) -> str:
    """A line through the values, broken where there are none."""
    parts, drawn = [], False
    for t, v in zip(time_s, values, strict=True):
        if np.isfinite(v):
            parts.append(f"{'L' if drawn else 'M'}{across.at(t):.0f} {up.at(v):.1f}")
        drawn = bool(np.isfinite(v))
    return "".join(parts)


def _charts(achieved: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One small drawing for each kind of source: effect against plan, tiers in turn, in each its curves in turn."""
    if not achieved:
        return []
    groups = sorted({(row["planned_jnd"], row["tier"]) for row in achieved})
    tiers = list(dict.fromkeys(tier for _, tier in groups))
    shapes = [curve for curve in curves.CURVES if any(row["curve"] == curve for row in achieved)]
    highest = max(max(row["planned_jnd"], row["effect_high_jnd"], row["residual_jnd"]) for row in achieved)
    lowest = min(0.0, min(row["effect_low_jnd"] for row in achieved))
    left, top, right, bottom = CHART_BOX
    up = Axis(lowest, highest * 1.05, bottom, top)
    step = (right - left) / len(tiers)
    found = []
    for kind in dict.fromkeys(row["source_kind"] for row in achieved):
        marks = [
            {
                **row,
                "x": round(left + step * (tiers.index(row["tier"]) + (shapes.index(row["curve"]) + 0.8) / (len(shapes) + 0.6)), 1),
                "planned": round(up.at(row["planned_jnd"]), 1),
                "low": round(up.at(row["effect_low_jnd"]), 1),
                "median": round(up.at(row["effect_median_jnd"]), 1),
                "high": round(up.at(row["effect_high_jnd"]), 1),
                "asked": round(up.at(row["asked_jnd"]), 1),
                "least": round(up.at(row["asked_jnd"] + row["margin_jnd"]), 1),
                "residual": round(up.at(row["residual_jnd"]), 1),
            }
            for row in achieved
            if row["source_kind"] == kind
        ]
        labels = [(round(left + step * (number + 0.5), 1), tier) for number, tier in enumerate(tiers)]
        found.append({"kind": kind, "marks": marks, "zero": round(up.at(0.0), 1), "tiers": labels, "up": up.ticks(5)})
    return found
