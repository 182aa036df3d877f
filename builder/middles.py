"""Do both clips of a pair lie about the same middle? Then a single moment of a clip tells no more than its own place in the sweep.

A rising and a falling clip are mirrored about their sham, so their contours differ by twice the planned one and by nothing else. What
treats each clip by itself afterwards, such as normalising its peak, shifts one against the other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from builder import hypotheses
from builder.acoustics import curves
from builder.dimensions import BY_NAME, DIMENSIONS
from builder.leakage import BEYOND_SHARE, MIN_SOURCES
from builder.records import Contour, FloatArray, Sound
from builder.words import counted

GATE = "both clips of a pair lie about the same middle"
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


def table(gaps: Sequence[tuple[str, str, float]]) -> list[dict[str, Any]]:
    """How far pairs lie off their middles, by dimension.

    Parameters
    ----------
    gaps
        Dimension, source and gap of each pair.

    Returns
    -------
    list of dict
        `dimension`, `n_pairs`, `n_sources`; of |gap| the `median_jnd`, the `p95_jnd` (None without any) and how many pairs are beyond the
        limit, `n_beyond`; `p` of that limit, None where it isn't tested.
    """
    mine: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, source, gap in gaps:
        mine[name] += [(source, abs(gap))] if np.isfinite(gap) else []
    return [_row(dimension.name, mine[dimension.name]) for dimension in DIMENSIONS if dimension.name in mine]


def _row(name: str, known: Sequence[tuple[str, float]]) -> dict[str, Any]:
    gap = np.array([size for _, size in known])
    shares = hypotheses.by_source(gap > MAX_GAP_JND, [source for source, _ in known])
    median_jnd, p95_jnd = (round(float(value), 4) for value in np.percentile(gap, [50.0, 95.0])) if known else (None, None)
    return {
        "dimension": name,
        "n_pairs": len(known),
        "n_sources": len(shares),
        "median_jnd": median_jnd,
        "p95_jnd": p95_jnd,
        "n_beyond": int(np.sum(gap > MAX_GAP_JND)),
        "p": hypotheses.share_p(shares, BEYOND_SHARE) if len(shares) >= MIN_SOURCES else None,
    }


def hypotheses_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[hypotheses.Hypothesis]:
    """One for each dimension: few pairs lie about different middles."""
    for row in rows:
        if row["p"] is not None:
            line = (
                f"{row['dimension']}: the two clips of a pair lie off their common middle by {row['p95_jnd']:.2f} J (95th percentile), "
                f"{row['n_beyond']} of {counted(row['n_pairs'], 'pair')} by more than {MAX_GAP_JND} J "
                f"(p = {row['p']:.1g} of so many, were they {BEYOND_SHARE:.0%}), "
                f"at most {MAX_GAP_JND} J is allowed: was each clip normalised by itself?"
            )
            yield hypotheses.Hypothesis(GATE, row["p"], line, frozenset({row["dimension"]}))
