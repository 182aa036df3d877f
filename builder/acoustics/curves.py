"""Curves: the shape of progress from start to end of a sweep.

A curve maps normalised time u in [0, 1] to progress in [0, 1]. A sweep of signed span S puts the contour
S * (progress(u) - 1/2) on its source, so that the rising and the falling clip of a pair mirror each other about the
same mid-point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from builder.records import FloatArray

STEP_WIDTH = 0.02
"""Share of the clip that a step takes: a jump within one sample would click."""

_SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "linear": lambda u: u,
    "ease_in": lambda u: u**2,
    "ease_out": lambda u: 1.0 - (1.0 - u) ** 2,
    "step": lambda u: np.clip((u - 0.5) / STEP_WIDTH + 0.5, 0.0, 1.0),
    "flat": lambda u: np.full_like(u, 0.5),
}

CURVES = ("linear", "ease_in", "ease_out", "step")
"""Curves that have a direction; `flat` has none and is for shams and controls."""


def progress(curve: str, u: FloatArray) -> FloatArray:
    """Progress in [0, 1] at normalised times.

    Parameters
    ----------
    curve
        One of `CURVES` or `flat`.
    u
        float64, any shape; values outside [0, 1] are held at the ends.

    Returns
    -------
    ndarray
        float64, the shape of `u`.
    """
    return _SHAPES[curve](np.clip(u, 0.0, 1.0))


def end_to_start(curve: str) -> float:
    """Mean of the last third of a curve's progress minus mean of the first; tiers count this contrast, spans divide by it.

    For t: 5/6 - 1/6. For t squared: (1 - 8/27) - 1/27, and the same for its mirror image. For the step: 1 - 0. Flat: 0.
    """
    return {"step": 1.0, "flat": 0.0}.get(curve, 2.0 / 3.0)


def planned(curve: str, span: float, time_s: FloatArray, start_s: float, end_s: float) -> FloatArray:
    """The planned contour at given times, in the unit of `span`.

    Parameters
    ----------
    curve
        Name of the curve.
    span
        Signed end-to-end change.
    time_s
        float64, shape (n,).
    start_s, end_s
        The stretch that the sweep covers; before and after it the ends are held.

    Returns
    -------
    ndarray
        float64, shape (n,): span * (progress - 1/2).
    """
    return span * (progress(curve, (time_s - start_s) / (end_s - start_s)) - 0.5)


def planned_as_seen(curve: str, span: float, time_s: FloatArray, start_s: float, end_s: float, window_s: float) -> FloatArray:
    """The planned contour as a meter with a rectangular window of `window_s` sees it.

    Returns
    -------
    ndarray
        float64, shape (n,): the planned contour averaged over the window about each time.
    """
    if window_s == 0.0:
        return planned(curve, span, time_s, start_s, end_s)
    offsets = (np.arange(25) - 12) / 25 * window_s
    grid = time_s[:, None] + offsets[None, :]
    seen: FloatArray = planned(curve, span, grid.ravel(), start_s, end_s).reshape(grid.shape).mean(axis=1)
    return seen
