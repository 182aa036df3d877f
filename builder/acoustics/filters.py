"""Time-varying gain and filters, and matching one sound's loudness to another's.

References
----------
Griffin, D. & Lim, J. (1984). Signal estimation from modified short-time Fourier transform. IEEE TASSP 32(2), 236-243
(weighted overlap-add with the same window for analysis and synthesis).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import fft as scipy_fft

from builder.acoustics import meters, statistics
from builder.records import Contour, FloatArray, Sound

Shape = Callable[[FloatArray, float], FloatArray]

NEPERS_PER_DB = float(np.log(10.0)) / 20.0
STFT_WINDOW_S = 0.032
LEVEL_SHARE = 0.45
"""Share of the difference between the two loudness models that momentary loudness takes: its limit is the tighter one."""
TILT_LOW_HZ = 100.0
"""Tilt is held below this frequency: there is rumble but no voice, and a steep tilt would raise it by 30 dB."""

CUTOFF_DB = 6.0
"""How far down a low-pass is at its cutoff."""
LOW_PASS_FLOOR_DB = -100.0


def factor_of(gain_db: FloatArray) -> FloatArray:
    """The factor on amplitude that is so many decibels; the exponential takes half the time of a power of ten."""
    factor: FloatArray = np.exp(gain_db * NEPERS_PER_DB)
    return factor


def scaled_by_db(sound: Sound, gain_db: FloatArray | float) -> Sound:
    """A sound times a gain, its parts along with it.

    Parameters
    ----------
    gain_db
        One value, or float64, shape (n_samples,).
    """
    gain = factor_of(np.asarray(gain_db, dtype=np.float64))
    return sound.each(lambda samples: samples * (gain[:, None] if gain.ndim and samples.ndim == 2 else gain))


def filtered(sound: Sound, gain_db: Callable[[FloatArray, FloatArray], FloatArray]) -> Sound:
    """A mono sound behind a time-varying zero-phase filter, by weighted overlap-add (Griffin & Lim 1984).

    Parameters
    ----------
    gain_db
        Of (time_s, shape (n_frames, 1); frequency_hz, shape (1, n_bins)): dB, shape (n_frames, n_bins). A gain of 0
        everywhere gives the samples back to rounding error.

    Returns
    -------
    Sound
        As many samples.
    """
    width = round(STFT_WINDOW_S * sound.sample_rate_hz / 4) * 4
    hop = width // 4
    window = np.sqrt(np.hanning(width + 1)[:-1])
    n_samples = len(sound.samples)
    padded = np.concatenate([np.zeros(width), sound.samples, np.zeros(2 * width)])
    frames = np.lib.stride_tricks.sliding_window_view(padded, width)[::hop] * window
    time_s = (np.arange(len(frames)) * hop - width / 2) / sound.sample_rate_hz
    frequency_hz = scipy_fft.rfftfreq(width, 1.0 / sound.sample_rate_hz)
    spectrum = scipy_fft.rfft(frames, axis=1) * factor_of(gain_db(time_s[:, None], frequency_hz[None, :]))
    made = scipy_fft.irfft(spectrum, n=width, axis=1) * window
    kept = slice(width, width + n_samples)
    weight = _overlap_added(np.broadcast_to(window**2, made.shape), hop)
    return Sound(_overlap_added(made, hop)[kept] / weight[kept], sound.sample_rate_hz)


def _overlap_added(frames: FloatArray, hop: int) -> FloatArray:
    """Frames laid a hop apart and added up; a frame is a whole number of hops long."""
    n_frames, width = frames.shape
    n_hops = width // hop
    out = np.zeros((n_frames + n_hops - 1, hop))
    for i in reversed(range(n_hops)):
        out[i : i + n_frames] += frames[:, i * hop : (i + 1) * hop]
    return out.ravel()


def tilted(sound: Sound, db_per_octave: Callable[[FloatArray], FloatArray]) -> Sound:
    """A mono sound with a spectral tilt about 1 kHz that varies over time.

    Parameters
    ----------
    db_per_octave
        Of time_s, any shape: slope there, same shape. Positive is brighter.
    """

    def gain_db(time_s: FloatArray, frequency_hz: FloatArray) -> FloatArray:
        octave = np.log2(np.maximum(frequency_hz, TILT_LOW_HZ) / meters.REFERENCE_HZ)
        return db_per_octave(time_s) * octave

    return filtered(sound, gain_db)


def low_passed(sound: Sound, cutoff_octaves: Callable[[FloatArray], FloatArray], slope_db_per_octave: float) -> Sound:
    """A mono sound behind a low-pass whose cutoff varies over time.

    Flat below the cutoff and a straight fall in dB per octave above it, which join in a soft knee that is 6 dB down at the
    cutoff; no further down than 100 dB.

    Parameters
    ----------
    cutoff_octaves
        Of time_s, any shape: cutoff there in octaves re 1 kHz, same shape.
    slope_db_per_octave
        Of the fall.
    """

    def gain_db(time_s: FloatArray, frequency_hz: FloatArray) -> FloatArray:
        beyond = np.log2(np.maximum(frequency_hz, 1.0) / meters.REFERENCE_HZ) - cutoff_octaves(time_s)
        knee = CUTOFF_DB / (slope_db_per_octave * np.log(2.0))
        fall_db: FloatArray = slope_db_per_octave * knee * np.logaddexp(0.0, beyond / knee)
        return np.maximum(-fall_db, LOW_PASS_FLOOR_DB)

    return filtered(sound, gain_db)


def with_loudness_of(sound: Sound, reference: Sound, shape: Shape, n_passes: int = 2, level_share: float = LEVEL_SHARE) -> Sound:
    """A sound whose loudness over time is that of a reference, by a gain found in a few passes.

    BS.1770 and ISO 532-1 don't weigh frequencies alike: where one is matched, the other is off by up to 3 phon after a
    steep tilt. So momentary loudness is matched first, and then a share of what is left in loudness level is taken back:
    both end up about half as far off as either would be alone.

    What follows the sweep's own shape is undone in that shape, so that a step of level is undone by a step and not smeared
    over the meter's 400 ms; only the rest is undone by a smooth gain, taken from windows that are loud enough to be measured,
    straight in between and held at the ends: it doesn't pump in pauses. At last the mean level is made that of the reference.
    The gains are slow against BS.1770's filters, so that the sound is weighted once, before them all.

    Parameters
    ----------
    reference
        As long as `sound`.
    shape
        (time_s, window_s) -> the sweep's contour as a meter with that window sees it.
    n_passes
        Passes of the smooth gain; each takes what the one before left.
    level_share
        Share of what is left in ISO 532-1 loudness level that is taken back; 0 matches BS.1770 alone.

    Returns
    -------
    Sound
        As many samples; unchanged where nothing is loud enough to be measured.
    """
    rate, time_s = sound.sample_rate_hz, np.arange(len(sound.samples)) / sound.sample_rate_hz
    power = np.sum(meters.k_weighted(sound) ** 2, axis=0)
    wanted = meters.momentary_loudness_lufs(reference)

    def missing_lu(gain_db: FloatArray) -> Contour:
        return _difference(wanted, meters.momentary_loudness_of(power * factor_of(2.0 * gain_db), rate))

    gain_db = _in_shape(missing_lu(np.zeros(len(power))), shape, time_s)
    for _ in range(n_passes):
        gain_db = gain_db + _over_samples(missing_lu(gain_db), time_s)
    if level_share:
        level = meters.loudness_level_phon
        missing_phon = _difference(level(reference), level(scaled_by_db(sound, gain_db)))
        gain_db = gain_db + level_share * _in_shape(missing_phon, shape, time_s)
    overall = missing_lu(gain_db)
    return scaled_by_db(sound, gain_db + (float(np.mean(overall.value)) if overall.value.size else 0.0))


def _in_shape(change: Contour, shape: Shape, time_s: FloatArray) -> FloatArray:
    """That part of a wanted change of level that follows the sweep's shape, at given times; 0 where too little is known."""
    if change.value.size < 3:
        return np.zeros(len(time_s))
    gain, _ = statistics.fit(change.value, shape(change.time_s, meters.MOMENTARY_WINDOW_S))
    return gain * shape(time_s, 0.0)


def _difference(reference: Contour, now: Contour) -> Contour:
    """Reference minus now where both have a value and the reference is within 20 dB of its loudest."""
    if reference.value.shape != now.value.shape or not (reference.valid & now.valid).any():
        return meters.EMPTY
    both = reference.valid & now.valid
    both &= np.where(both, reference.value, -np.inf) >= np.max(reference.value[both]) - 20.0
    return Contour(reference.time_s[both], reference.value[both] - now.value[both])


def _over_samples(contour: Contour, time_s: FloatArray) -> FloatArray:
    """A contour at given times, straight between its frames and held at its ends; 0 where it's empty."""
    if contour.value.size == 0:
        return np.zeros(len(time_s))
    return np.interp(time_s, contour.time_s, contour.value)
