"""How periodic a voice is: harmonics-to-noise ratio, jitter, cepstral peak prominence.

References
----------
Boersma, P. (1993). Accurate short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a
sampled sound. IFA Proceedings 17, 97-110.
Hillenbrand, J., Cleveland, R. A. & Erickson, R. L. (1994). Acoustic correlates of breathy vocal quality. Journal of Speech
and Hearing Research 37(4), 769-778 (cepstral peak prominence: height of the peak over a line through the cepstrum).
"""

from __future__ import annotations

import numpy as np
from scipy import fft as scipy_fft
from scipy import ndimage

from builder.acoustics import meters, praat
from builder.records import Contour, FloatArray, Sound

HARMONICITY_STEP_S = 0.02
JITTER_WINDOW_S = 0.5
JITTER_HOP_S = 0.1
MAX_PERIOD_FACTOR = 1.3
"""Neighbouring periods further apart are a missed or a doubled pulse, not jitter; Praat's own figure."""
MIN_JITTER = 1e-4
CEPSTRUM_FRAMES = 5
CEPSTRUM_FROM_S = 0.001
"""Quefrencies below belong to the vocal tract, not to the periodicity (Hillenbrand et al. 1994)."""


def noise_to_harmonics_db(sound: Sound) -> Contour:
    """Praat's harmonics-to-noise ratio, negated: rises as a voice gets breathier.

    Returns
    -------
    Contour
        dB at 20 ms steps; `nan` in frames more than 20 dB under the loud ones. Empty under ten periods of the lowest F0.
    """
    return sound.once("noise_to_harmonics_db", _noise_to_harmonics_db)


def _noise_to_harmonics_db(sound: Sound) -> Contour:
    if sound.duration_s < praat.SHORTEST_S:
        return meters.EMPTY
    found = praat.harmonicity_db(sound, praat.f0_range_hz(sound)[0], HARMONICITY_STEP_S)
    heard = _audible_at(sound, found.time_s)
    return Contour(found.time_s, np.where(heard, -found.value, np.nan), heard)


def _audible_at(sound: Sound, time_s: FloatArray) -> np.ndarray:
    """Whether the spectral frame nearest to each time is loud enough to count; bool, shape of `time_s`."""
    level = meters.frame_level_db(sound)
    if level.value.size == 0:
        return np.zeros(len(time_s), dtype=np.bool_)
    return meters.audible(level.value)[np.clip(np.searchsorted(level.time_s, time_s), 0, level.value.size - 1)]


def jitter_log(sound: Sound) -> Contour:
    """Natural logarithm of local jitter in windows of 0.5 s each 0.1 s, as Praat defines it.

    Local jitter is the mean absolute difference between neighbouring periods over their mean. Periods lie between Praat's
    pitch marks; neighbours that differ by more than a factor of 1.3 don't count.

    Returns
    -------
    Contour
        ln of a ratio (0.01 is 1 %), no lower than ln(0.0001); `nan` where under half a window has periods that are loud enough
        to count. Empty under 0.5 s.
    """
    return sound.once("jitter_log", _jitter_log)


def _jitter_log(sound: Sound) -> Contour:
    if sound.duration_s < JITTER_WINDOW_S:
        return meters.EMPTY
    marks_s = praat.pitch_marks_s(sound)
    marks_s = marks_s[_audible_at(sound, marks_s)]
    centre_s = np.arange(JITTER_WINDOW_S / 2.0, sound.duration_s - JITTER_WINDOW_S / 2.0 + 1e-9, JITTER_HOP_S)
    value = np.full(len(centre_s), np.nan)
    for i, centre in enumerate(centre_s):
        value[i] = _log_jitter_of(marks_s[np.abs(marks_s - centre) <= JITTER_WINDOW_S / 2.0])
    return Contour(centre_s, value)


def _log_jitter_of(marks_s: FloatArray) -> float:
    """ln of the local jitter of pitch marks within one window; nan where their good periods cover under half of it."""
    period = np.diff(marks_s)
    if len(period) < 3:
        return float("nan")
    factor = np.maximum(period[1:], period[:-1]) / np.minimum(period[1:], period[:-1])
    good = factor <= MAX_PERIOD_FACTOR
    if np.sum(period[1:][good]) < JITTER_WINDOW_S / 2.0:
        return float("nan")
    jitter = np.mean(np.abs(np.diff(period)[good])) / np.mean((period[1:] + period[:-1])[good] / 2.0)
    return float(np.log(max(float(jitter), MIN_JITTER)))


def cepstral_peak_db(sound: Sound) -> Contour:
    """Cepstral peak prominence: height of the highest peak between 60 and 700 Hz over a line through the cepstrum.

    The cepstrum is that of the spectrum in dB, in windows of 64 ms, its magnitude in dB, averaged over five frames.

    Returns
    -------
    Contour
        dB at 10 ms steps; `nan` in frames more than 20 dB under the loud ones.
    """
    return sound.once("cepstral_peak_db", _cepstral_peak_db)


def _cepstral_peak_db(sound: Sound) -> Contour:
    time_s, power = meters.spectrogram(sound)
    if len(time_s) == 0:
        return meters.EMPTY
    spectrum_db = 10.0 * np.log10(np.maximum(power, 1e-12))
    cepstrum = np.abs(scipy_fft.irfft(spectrum_db, axis=0))[: power.shape[0]]
    cepstrum_db = 20.0 * np.log10(ndimage.uniform_filter1d(cepstrum, CEPSTRUM_FRAMES, axis=1, mode="nearest") + 1e-6)
    quefrency_s = np.arange(len(cepstrum_db)) / sound.sample_rate_hz
    used = (quefrency_s >= CEPSTRUM_FROM_S) & (quefrency_s <= 1.0 / praat.PITCH_FLOOR_HZ)
    line = np.array([quefrency_s[used], np.ones_like(quefrency_s[used])]).T
    over_db = cepstrum_db[used] - line @ np.linalg.lstsq(line, cepstrum_db[used], rcond=None)[0]
    peak_db = over_db[quefrency_s[used] >= 1.0 / praat.PITCH_CEILING_HZ].max(axis=0)
    heard = meters.audible(meters.frame_level_db(sound).value)
    return Contour(time_s, np.where(heard, peak_db, np.nan), heard)


def minus_cepstral_peak_db(sound: Sound) -> Contour:
    """Cepstral peak prominence, negated: rises as a voice gets noisier or less regular."""
    found = cepstral_peak_db(sound)
    return Contour(found.time_s, -found.value, found.counted)
