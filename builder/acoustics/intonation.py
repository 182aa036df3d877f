"""A recording's F0 changed along a plan: its own trend out, its own movement kept in part, the change put in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from builder.acoustics import praat, statistics
from builder.errors import Refused
from builder.records import Contour, FloatArray, Reason, Sound

MIN_VOICED_S = 0.5
MAX_SHIFT_SEMITONES = 9.0
"""Limit of the 95th percentile of |shift| from a source's own F0: up to 6 semitones are the sweep's, the rest is flattening."""


def changed(
    sound: Sound, semitones: Callable[[FloatArray], FloatArray], movement: float, start_s: float, end_s: float, keep_trend: bool = False
) -> Sound:
    """A recording with its own F0 trend taken out and a change put in, by pitch-synchronous overlap-add.

    Parameters
    ----------
    sound
        Mono; its analysis is kept with it.
    semitones
        Of time_s, shape (n,): the change there.
    movement
        What is kept of F0's own movement about its trend: 1 all, 0 none.
    start_s, end_s
        Where the trend is taken from.
    keep_trend
        Leave the trend in.

    Returns
    -------
    Sound
        As many samples.

    Raises
    ------
    Refused
        `unvoiced` with under 0.5 s of F0; `out_of_range` where a shift exceeds 9 semitones or F0 leaves 60 to 700 Hz;
        `too_short` under 70 ms.
    """
    overlap = sound.once("overlap", praat.Overlap)
    voiced_s = len(overlap.time_s) * praat.PITCH_STEP_S
    if voiced_s < MIN_VOICED_S:
        raise Refused(Reason.UNVOICED, f"{voiced_s:.2f} s of F0, at least {MIN_VOICED_S} s are needed")
    own = Contour(overlap.time_s, 12.0 * np.log2(overlap.f0_hz / 100.0))
    trend_per_s = 0.0 if keep_trend else statistics.drift_per_s(own, start_s, end_s)
    trend = trend_per_s * (own.time_s - np.mean(own.time_s))
    centre = np.median(own.value - trend)
    wanted = centre + movement * (own.value - trend - centre) + semitones(own.time_s)
    shift = float(np.percentile(np.abs(wanted - own.value), 95))
    if shift > MAX_SHIFT_SEMITONES:
        raise Refused(Reason.OUT_OF_RANGE, f"a shift of {shift:.1f} semitones, at most {MAX_SHIFT_SEMITONES}")
    f0_hz = 100.0 * 2.0 ** (wanted / 12.0)
    if np.percentile(f0_hz, 2) < praat.PITCH_FLOOR_HZ or np.percentile(f0_hz, 98) > praat.PITCH_CEILING_HZ:
        raise Refused(Reason.OUT_OF_RANGE, f"F0 from {f0_hz.min():.0f} to {f0_hz.max():.0f} Hz, allowed is 60 to 700 Hz")
    return overlap.with_f0(np.clip(f0_hz, praat.PITCH_FLOOR_HZ, praat.PITCH_CEILING_HZ))
