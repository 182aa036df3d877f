"""What a sweep moves beside its own dimension: measured in pairs, then summed up per swept and measured dimension.

The two clips of a pair share their source, so half the difference between what a meter hears in the rising and in the falling one
is what the sweep did to it, free of what the source does by itself: no sham and no recipe is needed, only the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from builder import hypotheses
from builder.acoustics import statistics
from builder.dimensions import BY_NAME, DIMENSIONS, MEASURES, HeldBy
from builder.records import Contour, FloatArray, Sound
from builder.words import counted

GATE = "no sweep moves a property that it must leave where it is"
MAX_LEAK_JND = 1.0
"""Limit of the 95th percentile of |change| in every dimension that isn't swept or linked: an equivalence within one J."""
BEYOND_SHARE = 0.05
"""Share of pairs that may be beyond it, sources counting alike."""
MAX_MEAN_JND = 0.5
"""Limit of |mean change| over sources, in the direction of the label."""
METER_SD_JND = 0.1
"""What meters themselves scatter by."""
MIN_SOURCES = 8
"""With fewer sources than this a change is shown and not tested."""


def of_pair(row: Mapping[str, Any], up: Sound, down: Sound) -> dict[str, Any]:
    """What moved in every dimension from the first to the last third, between a rising and a falling clip and in each.

    A dimension is measured on the kinds of source that can carry it, where its meter is sure, and wherever it's held or linked.

    Returns
    -------
    dict
        `dimension`, `source_id`; `change_jnd`: measure -> half the difference between the two clips, J; `contrast_jnd`: measure -> (rising,
        falling), each alone. None where a meter has no value.
    """
    swept, kind = BY_NAME[row["dimension"]], row["source_kind"]
    region = (row["active_start_s"], row["active_end_s"])
    changes: dict[str, float | None] = {}
    alone: dict[str, tuple[float | None, float | None]] = {}
    for name, (other, how) in MEASURES.items():
        change, each = float("nan"), (float("nan"), float("nan"))
        if kind in other.max_span or {name, other.name} & {*swept.holds, *swept.linked}:
            first, second = how.contour(up), how.contour(down)
            each = (_contrast(first, how, *region), _contrast(second, how, *region))
            change = each[0] - each[1]
            if not swept.warps_time:  # moment by moment, where a sweep leaves moments where they are
                change = statistics.moved(first, second, None, *region, how.factor_per_ten)
        jnd = other.jnd.on(kind)
        changes[name] = _or_none(change / 2.0 / jnd)
        alone[name] = (_or_none(each[0] / jnd), _or_none(each[1] / jnd))
    return {"dimension": swept.name, "source_id": row["source_id"], "change_jnd": changes, "contrast_jnd": alone}


def _contrast(contour: Contour, how: HeldBy, start_s: float, end_s: float) -> float:
    if how.factor_per_ten is not None:
        return statistics.level_contrast(contour, start_s, end_s, how.factor_per_ten)
    return statistics.mean_contrast(statistics.smooth(contour), start_s, end_s)


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def is_linked(swept: str, measured: str) -> bool:
    """Whether a measure is declared to move with a sweep."""
    return bool({measured, MEASURES[measured][0].name} & set(BY_NAME[swept].linked))


def must_hold(swept: str, measured: str) -> bool:
    """Whether a sweep must leave a measure where it is: neither its own nor linked."""
    return MEASURES[measured][0].name != swept and not is_linked(swept, measured)


def matrix(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Swept x measured, in J: what a sweep moves in every dimension.

    Returns
    -------
    list of dict
        `swept`, `measured`, `linked`, `n_pairs`, `n_measured`, `n_sources`; of |change| the `median_jnd`, the `p95_jnd` and how many pairs
        are beyond one J, `n_beyond`; `mean_jnd` over sources, in the direction of the label, with its 90 % interval `ci90_low_jnd` and
        `ci90_high_jnd`, and `equivalent`: whether that lies within one J either way; all None without a value. `mean_p` and `share_p`
        are the p-values of the two limits, None where they aren't tested.
    """
    found = []
    there = {change["dimension"] for change in changes}
    for swept in (dimension.name for dimension in DIMENSIONS if dimension.name in there):
        mine = [change for change in changes if change["dimension"] == swept]
        for name in MEASURES:
            known = [change for change in mine if change["change_jnd"][name] is not None]
            moved: FloatArray = np.array([change["change_jnd"][name] for change in known], dtype=np.float64)
            head = {"swept": swept, "measured": name, "linked": is_linked(swept, name), "n_pairs": len(mine), "n_measured": len(moved)}
            found.append({**head, **_figures(moved, [change["source_id"] for change in known], must_hold(swept, name))})
    return found


def _figures(moved: FloatArray, sources: Sequence[str], tested: bool) -> dict[str, float | bool | None]:
    means = hypotheses.by_source(moved, sources)
    shares = hypotheses.by_source(np.abs(moved) >= MAX_LEAK_JND, sources)
    tested = tested and len(means) >= MIN_SOURCES
    keys = ("mean_jnd", "median_jnd", "p95_jnd", "n_beyond", "ci90_low_jnd", "ci90_high_jnd", "equivalent")
    figures: dict[str, float | bool | None] = dict.fromkeys(keys)
    if moved.size:
        low, high = hypotheses.mean_interval(means, 0.9, METER_SD_JND)
        figures = {
            "mean_jnd": round(float(np.mean(means)), 4),
            "median_jnd": round(float(np.median(np.abs(moved))), 4),
            "p95_jnd": round(float(np.percentile(np.abs(moved), 95)), 4),
            "n_beyond": int(np.sum(np.abs(moved) >= MAX_LEAK_JND)),
            "ci90_low_jnd": round(low, 4) if len(means) > 1 else None,
            "ci90_high_jnd": round(high, 4) if len(means) > 1 else None,
            "equivalent": bool(low > -MAX_LEAK_JND and high < MAX_LEAK_JND),
        }
    return {
        "n_sources": len(means),
        **figures,
        "mean_p": hypotheses.mean_p(means, MAX_MEAN_JND, METER_SD_JND) if tested else None,
        "share_p": hypotheses.share_p(shares, BEYOND_SHARE) if tested else None,
    }


def hypotheses_of(leaks: Sequence[Mapping[str, Any]]) -> Iterator[hypotheses.Hypothesis]:
    """Two for each measure that a sweep must hold: few pairs are beyond one J, and the mean is within half a J."""
    for leak in leaks:
        if leak["mean_p"] is None:
            continue
        rests_on = frozenset({leak["swept"]})
        what = f"{leak['swept']} moves {leak['measured']}: "
        over = f"{counted(leak['n_measured'], 'pair')} of {counted(leak['n_sources'], 'source')}"
        advice = "is allowed; hold it, or declare it linked"
        share = (
            f"{what}95th percentile {leak['p95_jnd']:.2f} J over {over}, {leak['n_beyond']} of them by {MAX_LEAK_JND:g} J or more "
            f"(p = {leak['share_p']:.1g} of so many, were they {BEYOND_SHARE:.0%}), at most {MAX_LEAK_JND:g} J {advice}"
        )
        mean = (
            f"{what}mean {leak['mean_jnd']:+.2f} J ({leak['ci90_low_jnd']:+.2f} to {leak['ci90_high_jnd']:+.2f}) over {over} "
            f"(p = {leak['mean_p']:.1g}), at most {MAX_MEAN_JND:g} J either way {advice}"
        )
        yield hypotheses.Hypothesis(GATE, leak["share_p"], share, rests_on)
        yield hypotheses.Hypothesis(GATE, leak["mean_p"], mean, rests_on)
