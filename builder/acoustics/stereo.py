"""Two channels: panning a mono sound by level, and meters of the level difference between the ears.

Positive is right: all levels are right re left.
"""

from __future__ import annotations

import numpy as np
from scipy import signal

from builder.acoustics import meters
from builder.records import Contour, FloatArray, Sound

WINDOW_S = meters.SPECTRUM_WINDOW_S
HOP_S = meters.SPECTRUM_HOP_S
SILENT_POWER = 1e-12
MAX_DIFFERENCE_DB = 60.0
"""Beyond this the weaker channel is silent for all practical purposes, and the difference is held here."""
BAND_DEPTH_DB = 20.0
"""A band further below the frame's strongest doesn't count for the median over bands."""


def panned(sound: Sound, difference_db: FloatArray) -> Sound:
    """A mono sound in two channels with a level difference, its power summed over channels unchanged.

    With g the ratio of amplitudes right to left, the gains are 1 / sqrt(1 + g^2) on the left and g / sqrt(1 + g^2) on the right: their
    squares add up to 1 at every sample (the constant-power pan of mixing desks).

    Parameters
    ----------
    sound
        Samples of shape (n,).
    difference_db
        float64, shape (n,): level right re left.

    Returns
    -------
    Sound
        Samples of shape (n, 2): left, right.
    """
    ratio = 10.0 ** (difference_db / 20.0)
    gains = np.stack([np.ones_like(ratio), ratio], axis=1) / np.sqrt(1.0 + ratio**2)[:, None]
    return sound.each(lambda samples: samples[:, None] * gains)


def level_difference_db(sound: Sound) -> Contour:
    """Level of the right channel re the left, of the mean squares above 50 Hz in rectangular windows of 64 ms each 10 ms.

    Returns
    -------
    Contour
        dB, within +-60; `nan` in frames more than 20 dB under the loud ones by both channels' power. Empty for mono, and for a
        sound under 64 ms.
    """
    width, hop = round(WINDOW_S * sound.sample_rate_hz), round(HOP_S * sound.sample_rate_hz)
    if len(sound.channels) != 2 or len(sound.samples) < width:
        return meters.EMPTY
    low_cut = signal.butter(2, meters.AUDIBLE_FROM_HZ, "highpass", fs=sound.sample_rate_hz, output="sos")
    energy = np.cumsum(signal.sosfilt(low_cut, np.array(sound.channels)) ** 2, axis=1)
    energy = np.concatenate([np.zeros((2, 1)), energy], axis=1)
    start = np.arange(0, len(sound.samples) - width + 1, hop)
    left, right = np.maximum((energy[:, start + width] - energy[:, start]) / width, SILENT_POWER)
    difference_db = np.clip(10.0 * np.log10(right / left), -MAX_DIFFERENCE_DB, MAX_DIFFERENCE_DB)
    heard = meters.audible(meters.frame_level_db(sound).value)
    return Contour((start + width / 2) / sound.sample_rate_hz, np.where(heard, difference_db, np.nan), heard)


def band_level_difference_db(sound: Sound) -> Contour:
    """Level difference as the median over third octaves, from each channel's spectrum.

    Another way than `level_difference_db`: no band outweighs another, however loud, among those within 20 dB of the strongest.

    Returns
    -------
    Contour
        dB, within +-60, each 10 ms; `nan` in frames more than 20 dB under the loud ones by both channels' power. Empty for mono,
        and for a sound under 64 ms.
    """
    if len(sound.channels) != 2:
        return meters.EMPTY
    (time_s, left_db), (_, right_db) = (meters.third_octave_levels_db(Sound(channel, sound.sample_rate_hz)) for channel in sound.channels)
    if time_s.size == 0:
        return meters.EMPTY
    louder_db = np.maximum(left_db, right_db)
    counts = (louder_db >= louder_db.max(axis=0) - BAND_DEPTH_DB) & (louder_db > meters.FLOOR_DB)
    counts[:, ~counts.any(axis=0)] = True
    difference_db = np.nanmedian(np.where(counts, right_db - left_db, np.nan), axis=0)
    heard = meters.audible(meters.frame_level_db(sound).value)
    return Contour(time_s, np.where(heard, np.clip(difference_db, -MAX_DIFFERENCE_DB, MAX_DIFFERENCE_DB), np.nan), heard)
