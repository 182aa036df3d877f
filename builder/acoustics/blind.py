"""Blind meters of what was added to a sound: noise, a room, distortion. They see samples alone, and no parts.

Each is in the unit of its dimension with a slope of about 1 about the middle of its sweeps, flatter towards their ends. A blind
meter can't tell what was added from what the sound is like by itself, so levels are right to some dB only, changes better.

References
----------
Martin, R. (2001). Noise power spectral density estimation based on optimal smoothing and minimum statistics. IEEE Transactions on
Speech and Audio Processing 9(5), 504-512 (the floor of a band tells the noise in it).
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from builder.acoustics import meters
from builder.records import Contour, FloatArray, Sound

WINDOW_S = 0.8
HOP_S = 0.1
SILENT_POWER = 1e-7
"""A mean square of -70 dB re full scale: BS.1770's absolute gate."""

# -- noise: the floor in time and between harmonics -------------------------------------------------------------------

FLOOR_BAND_HZ = 250.0
FLOOR_SHARE = 0.1
FLOOR_OF_NOISE = -float(np.log(1.0 - FLOOR_SHARE))
"""The tenth percentile of an exponential distribution, which a bin's power of Gaussian noise follows, in units of its mean."""
LEAST_SIGNAL = 0.05
"""Share of the power that is taken to be signal where all of it is floor: keeps the ratio of pure noise finite, at 13 dB."""


def noise_floor_db(sound: Sound) -> Contour:
    """Level of the floor over that of the rest, in windows of 0.8 s each 100 ms.

    In each band of 250 Hz the lowest tenth of the spectral powers of a window, in pauses or between harmonics, tells the noise:
    its level is that percentile over what it would be of noise of unit power. What is above it is signal.

    Returns
    -------
    Contour
        dB, 13 at most; `nan` in windows under -70 dB re full scale. Empty for a sound under 0.9 s.
    """
    time_s, power = meters.spectrogram(sound)
    time_s, power = time_s[::2], power[:, ::2]
    width, hop = (round(length_s / (2.0 * meters.SPECTRUM_HOP_S)) for length_s in (WINDOW_S, HOP_S))
    if len(time_s) < width:
        return meters.EMPTY
    n_bins = round(FLOOR_BAND_HZ * meters.SPECTRUM_WINDOW_S)
    first = round(meters.AUDIBLE_FROM_HZ * meters.SPECTRUM_WINDOW_S)
    n_bands = (len(power) - first) // n_bins
    bands = power[first : first + n_bands * n_bins].reshape(n_bands, n_bins, -1)
    starts = range(0, len(time_s) - width + 1, hop)
    value = np.array([_floor_db(bands[:, :, start : start + width].reshape(n_bands, -1)) for start in starts])
    return Contour(np.array([(time_s[start] + time_s[start + width - 1]) / 2.0 for start in starts]), value)


def _floor_db(powers: FloatArray) -> float:
    """Floor over rest of some bands' powers, float64, shape (n_bands, n); `nan` where all are silent."""
    lowest = round(FLOOR_SHARE * powers.shape[1])
    total = float(powers.mean(axis=1).sum())
    if total < SILENT_POWER:
        return float("nan")
    floor = float(np.partition(powers, lowest, axis=1)[:, lowest].sum()) / FLOOR_OF_NOISE
    return 10.0 * float(np.log10(max(floor, SILENT_POWER * total) / max(total - floor, LEAST_SIGNAL * total)))


# -- a room: how fast bands decay -------------------------------------------------------------------------------------

DECAY_STEP_S = 0.06
DECAY_FROM_DB = 12.0
SLOWEST_DB_PER_S = 30.0
STEEP_SHARE = 0.15
MIN_DECAYS = 20
BANDS_WITHIN_DB = 25.0
DECAY_SCALE = 2.9
DECAY_OFFSET_DB = 11.5
"""Found on speech, syllables and pulses in rooms of known ratio: a slope of 1 from -18 to 0 dB, and the level in the middle."""


def decay_db(sound: Sound) -> Contour:
    """How slowly third-octave bands decay where they decay fastest, in windows of 0.8 s each 100 ms.

    Behind the loud moments of a dry sound a band falls by hundreds of dB per second, in a room of 0.6 s by 100. The rate that 15 %
    of a window's falling frames exceed is taken, while they are within 12 dB of the loudest in half a second.

    Returns
    -------
    Contour
        dB, in the unit of reverberant over direct sound, right to some 2 dB between -18 and 0; `nan` where hardly any band
        falls, as in steady sounds. Empty for a sound under 0.9 s.
    """
    time_s, level_db = meters.third_octave_levels_db(sound)
    used = (meters.THIRD_OCTAVE_HZ >= 200.0) & (meters.THIRD_OCTAVE_HZ <= 5500.0)
    step = round(DECAY_STEP_S / meters.SPECTRUM_HOP_S)
    width, hop = round(WINDOW_S / meters.SPECTRUM_HOP_S), round(HOP_S / meters.SPECTRUM_HOP_S)
    if len(time_s) < width + step:
        return meters.EMPTY
    level_db = level_db[used]
    rate = (level_db[:, :-step] - level_db[:, step:]) / DECAY_STEP_S
    time_s = (time_s[:-step] + time_s[step:]) / 2.0
    loud = ndimage.maximum_filter1d(level_db, 2 * round(0.25 / meters.SPECTRUM_HOP_S) + 1, axis=1)[:, :-step]
    heard = meters.audible(meters.frame_level_db(sound).value, below_db=40.0)[:-step]
    strong = level_db.max(axis=1) > level_db.max() - BANDS_WITHIN_DB
    falls = (level_db[:, :-step] > loud - DECAY_FROM_DB) & (rate > SLOWEST_DB_PER_S) & strong[:, None] & heard
    starts = range(0, len(time_s) - width + 1, hop)
    value = np.array([_slowness_db(rate[:, start : start + width][falls[:, start : start + width]]) for start in starts])
    return Contour(np.array([(time_s[start] + time_s[start + width - 1]) / 2.0 for start in starts]), value)


def _slowness_db(rate: FloatArray) -> float:
    """The rate of decay that 15 % exceed, dB per second, on the scale of reverberant over direct sound; `nan` of a few."""
    if len(rate) < MIN_DECAYS:
        return float("nan")
    return DECAY_OFFSET_DB - DECAY_SCALE * 20.0 * float(np.log10(np.percentile(rate, 100.0 * (1.0 - STEEP_SHARE)) / 100.0))


# -- distortion: how flat the waveform's tops are ---------------------------------------------------------------------

CREST_WINDOW_FRAMES = 3
CREST_SCALE = 4.0
CREST_OFFSET_DB = 13.0
"""Found on speech and vowels with known distortion: a slope of 1 about -15 dB, steeper above and flatter below."""


def flat_tops_db(sound: Sound) -> Contour:
    """How low the waveform's crest factor is, in windows of 30 ms each 10 ms.

    A bend takes the tops off a waveform. A sine has a crest factor of 3.0 dB, a square wave of 0, speech and vowels one of 8 to 9.

    Returns
    -------
    Contour
        dB, in the unit of distortion over signal; `nan` in frames more than 20 dB under the loud ones. Empty under 64 ms.
    """
    level = meters.frame_level_db(sound)
    if level.value.size == 0:
        return meters.EMPTY
    width = round(meters.SPECTRUM_HOP_S * sound.sample_rate_hz)
    frames = sound.mono[: len(sound.mono) // width * width].reshape(-1, width)
    peak = ndimage.maximum_filter1d(np.abs(frames).max(axis=1), CREST_WINDOW_FRAMES, mode="nearest")
    power = np.maximum(ndimage.uniform_filter1d((frames**2).mean(axis=1), CREST_WINDOW_FRAMES, mode="nearest"), SILENT_POWER**2)
    crest_db = 20.0 * np.log10(np.maximum(peak, SILENT_POWER)) - 10.0 * np.log10(power)
    at = np.minimum((level.time_s * sound.sample_rate_hz / width).astype(int), len(crest_db) - 1)
    heard = meters.audible(level.value)
    return Contour(level.time_s, np.where(heard, CREST_OFFSET_DB - CREST_SCALE * crest_db[at], np.nan), heard)
