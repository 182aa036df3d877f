"""What a sweep moves beside its own dimension: measured in pairs, then summed up per swept and measured dimension.

The two clips of a pair share their source, so half the difference between what a meter hears in the rising and in the falling one
is what the sweep did to it, free of what the source does by itself: no sham and no recipe is needed, only the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from builder.acoustics import statistics
from builder.dimensions import BY_NAME, DIMENSIONS, MEASURES, HeldBy
from builder.records import Contour, FloatArray, Sound
from builder.words import counted

MAX_LEAK_JND = 1.0
"""Limit of the 95th percentile of |change| in every dimension that isn't swept or linked: an equivalence within one J."""
BEYOND_SHARE, SURE = 0.05, 0.01
"""The gate closes where more than this share of pairs is beyond the limit, at this significance (one-sided binomial test): the 95th
percentile of a few dozen pairs is uncertain by so much that a share of 5 % would close it half of the time."""
MAX_MEAN_JND = 0.5
"""Limit of |mean change|, in the direction of the label; the gate closes where all of the mean's 90 % interval lies beyond."""
MIN_PAIRS = 8
"""Fewer pairs than this are shown and not judged: one lost meter would be their 95th percentile."""
N_BOOTSTRAP = 1000


def of_pair(row: Mapping[str, Any], up: Sound, down: Sound) -> dict[str, Any]:
    """What moved in every dimension from the first to the last third, between a rising and a falling clip and in each.

    A dimension is measured on the kinds of source that can carry it, where its meter is sure, and wherever it's held or linked.

    Returns
    -------
    dict
        `change_jnd`: measure -> half the difference between the two clips, J; `contrast_jnd`: measure -> (rising, falling), each
        alone. None where a meter has no value.
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
    return {"dimension": swept.name, "source_kind": kind, "tier": row["tier"], "change_jnd": changes, "contrast_jnd": alone}


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
    """Swept x measured, in J: median and 95th percentile of |change|, and the mean in the direction of the label.

    The mean's 90 % interval is a bootstrap over pairs; `equivalent` says that it lies within one J either way.
    """
    found = []
    there = {change["dimension"] for change in changes}
    for swept in (dimension.name for dimension in DIMENSIONS if dimension.name in there):
        mine = [change["change_jnd"] for change in changes if change["dimension"] == swept]
        for name in MEASURES:
            moved: FloatArray = np.array([change[name] for change in mine if change[name] is not None], dtype=np.float64)
            head = {"swept": swept, "measured": name, "linked": is_linked(swept, name), "n_pairs": len(mine), "n_measured": len(moved)}
            found.append({**head, **_figures(moved)})
    return found


def _figures(moved: FloatArray) -> dict[str, float | bool | None]:
    if moved.size == 0:
        return dict.fromkeys(("mean_jnd", "median_jnd", "p95_jnd", "n_beyond", "ci90_low_jnd", "ci90_high_jnd", "equivalent"))
    drawn = np.random.default_rng(1).integers(0, len(moved), (N_BOOTSTRAP, len(moved)))
    low, high = (round(float(limit), 4) for limit in np.percentile(moved[drawn].mean(axis=1), [5.0, 95.0]))
    return {
        "mean_jnd": round(float(np.mean(moved)), 4),
        "median_jnd": round(float(np.median(np.abs(moved))), 4),
        "p95_jnd": round(float(np.percentile(np.abs(moved), 95)), 4),
        "n_beyond": int(np.sum(np.abs(moved) >= MAX_LEAK_JND)),
        "ci90_low_jnd": low,
        "ci90_high_jnd": high,
        "equivalent": bool(low > -MAX_LEAK_JND and high < MAX_LEAK_JND),
    }


def failures(leaks: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each measure that a sweep moves by more than it may."""
    lines = []
    for leak in leaks:
        if leak["n_measured"] < MIN_PAIRS or not must_hold(leak["swept"], leak["measured"]):
            continue
        what = f"{leak['swept']} moves {leak['measured']}: "
        n_pairs = f"over {counted(leak['n_measured'], 'pair')}"
        advice = "is allowed; hold it, or declare it linked"
        chance = stats.binom.sf(leak["n_beyond"] - 1, leak["n_measured"], BEYOND_SHARE)
        if leak["p95_jnd"] >= MAX_LEAK_JND and chance < SURE:
            lines.append(
                f"{what}95th percentile {leak['p95_jnd']:.2f} J {n_pairs}, {leak['n_beyond']} of them by {MAX_LEAK_JND:g} J or more "
                f"(p = {chance:.1g} of as many, were they {BEYOND_SHARE:.0%}), at most {MAX_LEAK_JND:g} J {advice}"
            )
        if max(leak["ci90_low_jnd"], -leak["ci90_high_jnd"]) >= MAX_MEAN_JND:
            lines.append(
                f"{what}mean {leak['mean_jnd']:+.2f} J ({leak['ci90_low_jnd']:+.2f} to {leak['ci90_high_jnd']:+.2f}) {n_pairs}, "
                f"at most {MAX_MEAN_JND:g} J either way {advice}"
            )
    return lines
