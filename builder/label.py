"""Contours to up, down or abstain, with the margin and the failed rule.

Each rule is a function of contours and of what was planned, so that cheap rules can be asked before costly measures are
made. The rules, per clip of a pair:

1. sham: every measure is also compared with the same pipeline's output under a flat curve;
2. difference: clip minus sham follows the planned curve (gain, R-squared);
3. heard: the clip alone shows the planned direction by four statistics, by a margin;
4. witness: an independent method on the clip alone doesn't contradict;
5. isolation: held dimensions stay where the sham has them.

Published numbers are rounded here, before they're compared with a threshold or stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from builder.acoustics import statistics
from builder.records import Contour, FloatArray, Margins, Reason

DIGITS = 4


@dataclass(frozen=True)
class Heard:
    """What a contour says by itself, over the active region.

    Parameters
    ----------
    contrast
        Median of the last third minus median of the first, in the dimension's unit.
    trend
        Theil-Sen slope times the length of the region, in the dimension's unit.
    rank_correlation
        Spearman's rho with time.
    block_tau
        Kendall's tau of eight block medians.
    salience
        |trend| over the standard deviation of the residual about it; inf where there is no residual, `nan` without frames.
    counted
        Share of frames that are loud enough to be asked for a value.
    valid, valid_third
        Share of those with a value: overall, and in the poorest third.
    """

    contrast: float
    trend: float
    rank_correlation: float
    block_tau: float
    salience: float
    counted: float
    valid: float
    valid_third: float


def hear(contour: Contour, start_s: float, end_s: float) -> Heard:
    """The statistics of a contour over [start_s, end_s]; those that can't be computed are `nan`."""
    rounded = Contour(contour.time_s, np.round(contour.value, DIGITS), contour.counted)
    heard = statistics.between(statistics.smooth(rounded), start_s, end_s)
    slope = statistics.trend_per_s(heard)
    valid, valid_third = statistics.valid_shares(heard, start_s, end_s)
    residual = heard.value[heard.valid] - slope * heard.time_s[heard.valid]
    spread = float(np.std(residual)) if residual.size > 2 else float("nan")
    trend = slope * (end_s - start_s)
    salience = float("inf") if spread <= 1e-9 else abs(trend) / spread
    return Heard(
        contrast=round(statistics.thirds_contrast(heard, start_s, end_s), DIGITS),
        trend=round(trend, DIGITS),
        rank_correlation=round(statistics.spearman_rho(heard), DIGITS),
        block_tau=round(statistics.kendall_tau(statistics.block_medians(heard, start_s, end_s)), DIGITS),
        salience=round(salience, DIGITS) if np.isfinite(salience) else salience,
        counted=round(statistics.counted_share(heard), DIGITS),
        valid=round(valid, DIGITS),
        valid_third=round(valid_third, DIGITS),
    )


def judge_heard(heard: Heard, planned_contrast: float, jnd: float, margins: Margins) -> Reason | None:
    """Rule 3: does the clip alone show the planned direction?

    Parameters
    ----------
    heard
        Statistics of the clip's contour.
    planned_contrast
        Signed end-to-start contrast that was planned, in the dimension's unit.
    jnd
        J in the dimension's unit.
    margins
        The recipe's.

    Returns
    -------
    Reason or None
        None if it does; else `unmeasurable`, `contradicted` (all statistics the other way, by a margin), `unclear` (the
        statistics disagree), `too_small` or `not_salient`.
    """
    figures = np.array([heard.contrast, heard.trend, heard.rank_correlation, heard.block_tau])
    if not _measured(heard, margins) or not np.all(np.isfinite(figures)):
        return Reason.UNMEASURABLE
    agree = figures * np.sign(planned_contrast)
    if np.all(agree < 0.0) and abs(heard.contrast) >= margins.min_contrast_jnd * jnd:
        return Reason.CONTRADICTED
    needed = max(margins.min_contrast_jnd * jnd, margins.min_share_of_plan * abs(planned_contrast))
    if agree[0] < needed:
        return Reason.TOO_SMALL
    if not np.all(agree > 0.0):
        return Reason.UNCLEAR
    if heard.salience < margins.min_salience:
        return Reason.NOT_SALIENT
    return None


def _measured(heard: Heard, margins: Margins) -> bool:
    """Whether enough of the clip has a value."""
    enough = heard.valid >= margins.min_valid and heard.valid_third >= margins.min_valid_third
    return enough and heard.counted >= margins.min_counted


def judge_flat(heard: Heard, jnd: float, margins: Margins) -> Reason | None:
    """Does a control say nothing, by a margin?

    Returns
    -------
    Reason or None
        None if |contrast| stays within the control's limit; else `unmeasurable` or `not_flat`.
    """
    if not _measured(heard, margins) or not np.isfinite(heard.contrast):
        return Reason.UNMEASURABLE
    flat = abs(heard.contrast) <= margins.max_control_jnd * jnd and direction_of(heard, jnd, margins) == 0
    return None if flat else Reason.NOT_FLAT


def direction_of(heard: Heard, jnd: float, margins: Margins) -> int:
    """What a clip says with no plan in sight: +1 up, -1 down, 0 nothing (unmeasurable, unclear or under a margin)."""
    for sign in (1, -1):
        if judge_heard(heard, sign * margins.min_contrast_jnd * jnd, jnd, margins) is None:
            return sign
    return 0


def judge_difference(change: Contour, planned_seen: FloatArray, margins: Margins) -> tuple[Reason | None, float, float]:
    """Rule 2: does clip minus sham follow the planned curve?

    Parameters
    ----------
    change
        From `statistics.difference`.
    planned_seen
        float64, shape of the contour: the planned curve as the meter's window sees it.

    Returns
    -------
    reason, gain, r_squared
        Reason is None if both are within the margins, else `difference_unfit`.
    """
    gain, r_squared = (round(figure, DIGITS) for figure in statistics.fit(change.value, planned_seen))
    low, high = margins.difference_gain
    fits = low <= gain <= high and r_squared >= margins.min_r_squared
    return (None if fits else Reason.DIFFERENCE_UNFIT), gain, r_squared


def witness_contrast(clip: Contour, start_s: float, end_s: float) -> float:
    """What the independent measure hears from first to last third, in its own unit; `nan` where it has no value."""
    heard = statistics.between(statistics.smooth(clip), start_s, end_s)
    return round(statistics.thirds_contrast(heard, start_s, end_s), DIGITS)


def judge_witness(clip: Contour, sham: Contour, sign: float, start_s: float, end_s: float, margins: Margins) -> tuple[Reason | None, str]:
    """Rule 4: does the independent measure, on the clip alone, agree?

    Where the witness's own spread (from its movement on the sham) is larger than the change it sees, it may not
    contradict by more than that spread. A witness that has no value in a fifth of the frames of each third isn't one.

    Returns
    -------
    reason, verdict
        None and `agrees` or `undecided`; or `witness_contradicts` and `contradicts`; or `witness_unmeasurable` and
        `unmeasurable`.
    """
    contrast = witness_contrast(clip, start_s, end_s)
    heard = statistics.between(statistics.smooth(clip), start_s, end_s)
    _, valid_third = statistics.valid_shares(heard, start_s, end_s)
    if not np.isfinite(contrast) or valid_third < margins.min_valid_third:
        return Reason.WITNESS_UNMEASURABLE, "unmeasurable"
    if contrast * sign > 0.0:
        return None, "agrees"
    own = statistics.between(statistics.smooth(sham), start_s, end_s)
    spread = round(statistics.contrast_spread(statistics.block_medians(own, start_s, end_s)), DIGITS)
    if not np.isfinite(spread):
        return Reason.WITNESS_UNMEASURABLE, "unmeasurable"
    if abs(contrast) <= spread:
        return None, "undecided"
    return Reason.WITNESS_CONTRADICTS, "contradicts"


def leak_jnd(
    clip: Contour,
    sham: Contour,
    to_sham_s: statistics.ToReference | None,
    start_s: float,
    end_s: float,
    jnd: float,
    factor_per_ten: float | None = None,
) -> float | None:
    """Rule 5: by how many J a held dimension moved from first to last third, against the sham.

    Parameters
    ----------
    clip, sham
        Contours in the held dimension.
    to_sham_s
        As for `statistics.difference`.
    start_s, end_s
        The active region.
    jnd
        J of the held dimension.
    factor_per_ten
        For levels, what is averaged grows by this factor over ten units (see `HeldBy`); None averages values.

    Returns
    -------
    float or None
        In J; None if it can't be measured on this carrier.
    """
    contrast = statistics.moved(clip, sham, to_sham_s, start_s, end_s, factor_per_ten)
    return round(contrast / jnd, DIGITS) if np.isfinite(contrast) else None
