"""Do both clips of a pair lie about the same middle? Then a single moment of a clip tells no more than its own place in the sweep.

A rising and a falling clip are mirrored about their sham, so their contours differ by twice the planned one and by nothing else. What
treats each clip by itself afterwards, such as normalising its peak, shifts one against the other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builder.acoustics import curves
from builder.dimensions import BY_NAME, DIMENSIONS
from builder.leakage import MIN_PAIRS
from builder.records import Contour, FloatArray, Sound

MAX_GAP_JND = 0.5
"""Limit of the 95th percentile of |gap|: a default build has 0.35 for formants, whose meter is the coarsest, and 0.2 at most elsewhere;
peaks normalised after sweeps of loudness by 8 J have over 1."""
N_MOMENTS = 60


def gap_jnd(rows: Sequence[Mapping[str, Any]], sounds: Sequence[Sound]) -> float:
    """By how many J the two clips of a pair lie off their common middle.

    Parameters
    ----------
    rows, sounds
        The rising and the falling clip's.

    Returns
    -------
    float
        Median over time of half the difference of their contours less the planned one; `nan` where either can't be measured. Of a label
        from parts the published contours are taken, for samples alone don't hold them.
    """
    up = rows[0]
    region = (up["active_start_s"], up["active_end_s"])
    moments = np.linspace(*region, N_MOMENTS)
    values = [_at(_contour(row, sound), moments) for row, sound in zip(rows, sounds, strict=True)]
    dimension = BY_NAME[up["dimension"]]
    planned = curves.planned_as_seen(up["curve"], up["span"], moments, *region, dimension.window_s)
    planned -= float(np.mean(planned)) if dimension.about_mean else 0.0
    return float(np.median((values[0] - values[1]) / 2.0 - planned)) / float(json.loads(up["plan"])["pair"]["jnd"])


def _contour(row: Mapping[str, Any], sound: Sound) -> Contour:
    dimension = BY_NAME[row["dimension"]]
    if dimension.basis == "heard":
        return dimension.measure(sound)
    value = [np.nan if item is None else item for item in row["contour_value"]]
    return Contour(np.array(row["contour_time_s"], dtype=np.float64), np.array(value, dtype=np.float64))


def _at(contour: Contour, moments: FloatArray) -> FloatArray:
    if not contour.valid.any():
        return np.full(len(moments), np.nan)
    return np.interp(moments, contour.time_s[contour.valid], contour.value[contour.valid])


def table(gaps: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Per dimension `n_pairs`, and of |gap| the median and the 95th percentile, `median_jnd` and `p95_jnd`, J; None without any.

    Parameters
    ----------
    gaps
        Dimension and gap of each pair.
    """
    mine: dict[str, list[float]] = defaultdict(list)
    for name, gap in gaps:
        mine[name] += [abs(gap)] if np.isfinite(gap) else []
    return [
        {
            "dimension": dimension.name,
            "n_pairs": len(mine[dimension.name]),
            **{
                f"{key}_jnd": round(float(np.percentile(mine[dimension.name], share)), 4) if mine[dimension.name] else None
                for key, share in (("median", 50.0), ("p95", 95.0))
            },
        }
        for dimension in DIMENSIONS
        if dimension.name in mine
    ]


def failures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each dimension whose pairs lie about different middles."""
    return [
        f"{row['dimension']}: the two clips of a pair lie off their common middle by {row['p95_jnd']:.2f} J (95th percentile), "
        f"at most {MAX_GAP_JND} J is allowed: was each clip normalised by itself?"
        for row in rows
        if row["n_pairs"] >= MIN_PAIRS and row["p95_jnd"] > MAX_GAP_JND
    ]
