"""Does silence at the ends tell the direction? Which of a pair's clips begins later, or ends sooner, mustn't depend on the label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from builder import hypotheses
from builder.records import FloatArray
from builder.words import counted

GATE = "silence at the ends doesn't tell the direction"
METER_SD_S = 0.01
"""What the meter scatters by: it has frames of so much."""


def row(dimension: str, lead_minus_tail_s: FloatArray, direction: Sequence[int], sources: Sequence[str]) -> dict[str, Any]:
    """How well lead-in minus lead-out silence tells rising from falling clips of a dimension.

    Parameters
    ----------
    dimension
        Its name.
    lead_minus_tail_s
        Lead-in minus lead-out silence of each clip, seconds.
    direction, sources
        Of each clip; 0 rises.

    Returns
    -------
    dict
        `dimension`, `n_clips`, `n_sources`; `auc`, 0.5 where a direction is missing; `mean_s`, rising minus falling, over sources that have
        both, and `p` of its being 0, by Student's t test.
    """
    falls = np.asarray(direction) == 1
    names = np.array(sources, dtype=str)
    both = np.isin(names, np.intersect1d(names[falls], names[~falls]))
    up, down = (hypotheses.by_source(lead_minus_tail_s[side & both], names[side & both]) for side in (~falls, falls))
    return {
        "dimension": dimension,
        "n_clips": len(falls),
        "n_sources": len(up),
        "auc": round(_auc(lead_minus_tail_s, falls), 4),
        "mean_s": round(float(np.mean(up - down)), 6) if len(up) else None,
        "p": hypotheses.mean_p(up - down, 0.0, METER_SD_S),
    }


def _auc(values: FloatArray, falls: np.ndarray) -> float:
    """Share of all rising and falling clips in which the rising one's value is higher, ties by half."""
    n_up, n_down = int(np.sum(~falls)), int(np.sum(falls))
    if not n_up or not n_down:
        return 0.5
    return float((stats.rankdata(values)[~falls].mean() - (n_up + 1) / 2.0) / n_down)


def hypotheses_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[hypotheses.Hypothesis]:
    """One for each dimension: rising and falling clips have the same silence on average."""
    for item in rows:
        if item["mean_s"] is not None:
            line = (
                f"{item['dimension']}: silence at the ends tells the direction: AUC {item['auc']:.2f}, lead-in minus lead-out "
                f"{1000.0 * item['mean_s']:+.0f} ms longer in rising clips "
                f"(mean of {counted(item['n_sources'], 'source')}, p = {item['p']:.1g})"
            )
            yield hypotheses.Hypothesis(GATE, item["p"], line)
