"""Statistics of contours: trend, contrast and rank, in forms that a few wild frames don't move.

References
----------
Kendall, M. G. (1945). The treatment of ties in ranking problems. Biometrika 33(3), 239-251.
Theil, H. (1950) and Sen, P. K. (1968). Estimates of the regression coefficient based on Kendall's tau. JASA 63, 1379.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import ndimage

from builder.records import BoolArray, Contour, FloatArray

ToReference = Callable[[FloatArray], FloatArray]

N_BLOCKS = 8


def smooth(contour: Contour, n_frames: int = 5) -> Contour:
    """Median over `n_frames` neighbouring frames, of the frames that are valid.

    Returns
    -------
    Contour
        Same times; `nan` stays `nan`.
    """
    valid = contour.valid
    value = contour.value.copy()
    if valid.sum() >= n_frames:
        value[valid] = ndimage.median_filter(contour.value[valid], size=n_frames, mode="nearest")
    return Contour(contour.time_s, value, contour.counted)


def between(contour: Contour, start_s: float, end_s: float) -> Contour:
    """The frames of a contour whose centres lie in [start_s, end_s]."""
    inside = (contour.time_s >= start_s) & (contour.time_s <= end_s)
    counted = None if contour.counted is None else contour.counted[inside]
    return Contour(contour.time_s[inside], contour.value[inside], counted)


@lru_cache(maxsize=512)
def _pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second of all pairs of n places; to be read only."""
    first, second = (places.astype(np.int16) for places in np.triu_indices(n, 1))
    return first, second


def trend_per_s(contour: Contour) -> float:
    """Theil-Sen slope of the valid frames, unit per second; `nan` with fewer than two.

    Contours of more than 300 valid frames are thinned evenly to 300, which bounds the cost.
    """
    time_s, value = contour.time_s[contour.valid], contour.value[contour.valid]
    if len(time_s) < 2:
        return float("nan")
    if len(time_s) > 300:
        kept = np.linspace(0, len(time_s) - 1, 300).round().astype(int)
        time_s, value = time_s[kept], value[kept]
    first, second = _pairs(len(time_s))
    return float(np.median((value[second] - value[first]) / (time_s[second] - time_s[first])))


def thirds_contrast(contour: Contour, start_s: float, end_s: float) -> float:
    """Median of the last third of [start_s, end_s] minus median of the first; `nan` where either third is empty."""
    third = (end_s - start_s) / 3.0
    first = contour.value[contour.valid & (contour.time_s <= start_s + third)]
    last = contour.value[contour.valid & (contour.time_s >= end_s - third)]
    if first.size == 0 or last.size == 0:
        return float("nan")
    return float(np.median(last) - np.median(first))


def mean_contrast(contour: Contour, start_s: float, end_s: float) -> float:
    """Trimmed mean (a fifth off either end) of the last third of [start_s, end_s] minus that of the first.

    Averages a ripple away where a median would pick a phase of it. `nan` where a third has under a fifth of its frames.
    """
    first, last = _outer_thirds(contour, start_s, end_s)
    return _trimmed_mean(last) - _trimmed_mean(first) if first.size and last.size else float("nan")


def _trimmed_mean(value: FloatArray) -> float:
    """Mean of what lies between the lowest and the highest fifth."""
    cut = int(0.2 * len(value))
    return float(np.sort(value)[cut : len(value) - cut].mean())


def level_contrast(contour: Contour, start_s: float, end_s: float, factor_per_ten: float) -> float:
    """Level of the mean power (or loudness) of the last third minus that of the first.

    Parameters
    ----------
    factor_per_ten
        The factor by which what is averaged grows over ten units: 10 for power in dB, 2 for loudness in phon.

    Returns
    -------
    float
        In the contour's unit; `nan` where a third has under a fifth of its frames.
    """
    first, last = _outer_thirds(contour, start_s, end_s)
    if not first.size or not last.size:
        return float("nan")
    scale = np.log(factor_per_ten) / 10.0
    middle = float(np.median(np.concatenate([first, last])))
    means = [float(np.log(np.mean(np.exp(scale * (third - middle)))) / scale) for third in (first, last)]
    return means[1] - means[0]


def _outer_thirds(contour: Contour, start_s: float, end_s: float) -> tuple[FloatArray, FloatArray]:
    """Valid values of the first and last third of [start_s, end_s]; empty where under a fifth of the frames is valid."""
    third = (end_s - start_s) / 3.0
    within = (contour.time_s >= start_s) & (contour.time_s <= end_s)
    found = []
    for inside in (within & (contour.time_s <= start_s + third), within & (contour.time_s >= end_s - third)):
        valid = contour.value[inside & contour.valid]
        found.append(valid if valid.size >= 0.2 * np.sum(inside) else valid[:0])
    return found[0], found[1]


def valid_shares(contour: Contour, start_s: float, end_s: float) -> tuple[float, float]:
    """Share of the counted frames in [start_s, end_s] that are valid, and the smallest such share in any third.

    A third without a counted frame has the share 0.
    """
    counted = np.ones(len(contour.time_s), dtype=np.bool_) if contour.counted is None else contour.counted
    counted = counted | contour.valid
    edges = np.linspace(start_s, end_s, 4)
    third = np.clip(np.searchsorted(edges, contour.time_s, side="right") - 1, 0, 2)
    shares = [float(contour.valid[counted & (third == i)].mean()) if np.any(counted & (third == i)) else 0.0 for i in range(3)]
    return (float(contour.valid[counted].mean()) if counted.any() else 0.0), min(shares)


def counted_share(contour: Contour) -> float:
    """Share of frames that are counted; 1 where all are, 0 for an empty contour."""
    if contour.time_s.size == 0:
        return 0.0
    return 1.0 if contour.counted is None else float((contour.counted | contour.valid).mean())


def drift_per_s(contour: Contour, start_s: float, end_s: float) -> float:
    """A contour's own trend, to be taken out before a sweep: the mean of the slopes by Theil-Sen and by thirds.

    Either alone leaves the other standing on a bent contour; their mean halves what is left of both.

    Returns
    -------
    float
        Unit per second; 0 where there is no trend to be told.
    """
    inside = between(smooth(contour), start_s, end_s)
    slopes = [trend_per_s(inside), thirds_contrast(inside, start_s, end_s) / ((end_s - start_s) * 2.0 / 3.0)]
    known = [slope for slope in slopes if np.isfinite(slope)]
    return float(np.mean(known)) if known else 0.0


def block_medians(contour: Contour, start_s: float, end_s: float) -> FloatArray:
    """Medians of the valid frames in eight equal blocks of [start_s, end_s]; float64, shape (<= 8,): empty ones left out."""
    edges = np.linspace(start_s, end_s, N_BLOCKS + 1)
    block = np.clip(np.searchsorted(edges, contour.time_s, side="right") - 1, 0, N_BLOCKS - 1)
    medians = [np.median(contour.value[contour.valid & (block == i)]) for i in range(N_BLOCKS) if np.any(contour.valid & (block == i))]
    return np.array(medians)


def kendall_tau(blocks: FloatArray) -> float:
    """Kendall's tau-b of block medians with their order; `nan` with fewer than three, 0 where all are equal.

    Concordant less discordant pairs, over the root of all pairs times those that aren't tied (Kendall 1945).
    """
    if len(blocks) < 3:
        return float("nan")
    if np.ptp(blocks) == 0.0:
        return 0.0
    first, second = _pairs(len(blocks))
    sign = np.sign(blocks[second] - blocks[first])
    return float(np.sum(sign) / np.sqrt(len(sign) * np.count_nonzero(sign)))


def spearman_rho(contour: Contour) -> float:
    """Spearman's rank correlation of value with time; `nan` with fewer than three valid frames, 0 where all are equal."""
    time_s, value = contour.time_s[contour.valid], contour.value[contour.valid]
    if len(time_s) < 3:
        return float("nan")
    if np.ptp(value) == 0.0:
        return 0.0
    _, place, count = np.unique(value, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2.0)[place]  # equal values share the mean of their ranks
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])


def contrast_spread(blocks: FloatArray) -> float:
    """Standard error of a thirds contrast that a contour's own movement brings, from its block medians.

    The residuals of the block medians about their straight line have a standard deviation s; each third holds 8/3 of
    the eight blocks, so the difference of two thirds has the standard error s * sqrt(2 / (8/3)).

    Returns
    -------
    float
        In the contour's unit; `inf` with fewer than four blocks.
    """
    if len(blocks) < 4:
        return float("inf")
    order = np.arange(len(blocks), dtype=np.float64)
    residual = blocks - np.polyval(np.polyfit(order, blocks, 1), order)
    return float(np.sqrt(np.sum(residual**2) / (len(blocks) - 2)) * np.sqrt(2.0 / (N_BLOCKS / 3.0)))


def fit(value: FloatArray, shape: FloatArray) -> tuple[float, float]:
    """Least squares of `value` on `shape` with an intercept.

    Returns
    -------
    gain, r_squared
        Both 0 where either is constant or fewer than three points remain.
    """
    valid = np.isfinite(value) & np.isfinite(shape)
    if valid.sum() < 3:
        return 0.0, 0.0
    x, y = shape[valid] - shape[valid].mean(), value[valid] - value[valid].mean()
    xx, yy = float(x @ x), float(y @ y)
    if xx == 0.0 or yy == 0.0:
        return 0.0, 0.0
    gain = float(x @ y) / xx
    return gain, 1.0 - float(np.sum((y - gain * x) ** 2)) / yy


# -- one contour against another --------------------------------------------------------------------------------------


def difference(clip: Contour, reference: Contour, to_reference_s: ToReference | None) -> Contour:
    """Clip minus reference at the clip's frames, smoothed.

    Parameters
    ----------
    clip, reference
        Contours by the same measure.
    to_reference_s
        Where in the reference each moment of the clip comes from; None if nothing moved.

    Returns
    -------
    Contour
        At the clip's times; `nan` where either has no value nearby.
    """
    return smooth(Contour(clip.time_s, clip.value - at_times(reference, clip.time_s, to_reference_s)))


def moved(
    clip: Contour,
    reference: Contour,
    to_reference_s: ToReference | None,
    start_s: float,
    end_s: float,
    factor_per_ten: float | None = None,
) -> float:
    """By how much a clip moved from first to last third of [start_s, end_s], against a reference.

    Parameters
    ----------
    clip, reference, to_reference_s
        As for `difference`.
    factor_per_ten
        For levels, what is averaged grows by this factor over ten units (see `level_contrast`); None averages values.

    Returns
    -------
    float
        In the contours' unit; `nan` where a third has under a fifth of its frames.
    """
    if factor_per_ten is None:
        return mean_contrast(difference(clip, reference, to_reference_s), start_s, end_s)
    at_clip = Contour(clip.time_s, at_times(reference, clip.time_s, to_reference_s))
    both = clip.valid & at_clip.valid
    contrasts = [level_contrast(_only(contour, both), start_s, end_s, factor_per_ten) for contour in (clip, at_clip)]
    return contrasts[0] - contrasts[1]


def at_times(reference: Contour, time_s: FloatArray, to_reference_s: ToReference | None) -> FloatArray:
    """A reference's value at each moment of a clip.

    Parameters
    ----------
    reference
        A contour.
    time_s
        float64, shape (n,): moments of the clip.
    to_reference_s
        As for `difference`.

    Returns
    -------
    ndarray
        float64, shape (n,), straight between frames; `nan` further than 1.5 frames from a valid one.
    """
    if not reference.valid.any() or len(time_s) == 0:
        return np.full(len(time_s), np.nan)
    at_s = time_s if to_reference_s is None else to_reference_s(time_s)
    known_s = reference.time_s[reference.valid]
    step_s = float(np.median(np.diff(reference.time_s))) if len(reference.time_s) > 1 else np.inf
    right = np.clip(np.searchsorted(known_s, at_s), 0, len(known_s) - 1)
    away_s = np.minimum(np.abs(known_s[right] - at_s), np.abs(known_s[np.maximum(right - 1, 0)] - at_s))
    return np.where(away_s <= 1.5 * step_s, np.interp(at_s, known_s, reference.value[reference.valid]), np.nan)


def _only(contour: Contour, kept: BoolArray) -> Contour:
    return Contour(contour.time_s, np.where(kept, contour.value, np.nan))
