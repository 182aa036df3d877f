"""The upper edge of a sound's spectrum: how far up it reaches, over time and as a whole.

Neither the spectrum's centroid nor its 95 % roll-off sees a low-pass on speech: nearly all of a voice's power lies below
1 kHz. So the edge is looked for by level: the highest frequency that is within 55 dB of the frame's strongest band.

The 55 dB are a convention until listeners confirm it. In speech at 65 dB SPL the strongest sixth of an octave has about 58 dB, so a
band 55 dB under it is about at the threshold of hearing between 2 and 6 kHz: what is further down isn't heard. It is also deep
enough that the edge of a steep low-pass is seen and not the voice's own fall, and still over the noise of 16 bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from builder.acoustics import meters, statistics
from builder.records import Contour, FloatArray, Sound

EDGE_DEPTH_DB = 55.0
BANDS_PER_OCTAVE = 12
BAND_WIDTH_OCTAVES = 1.0 / 6.0
"""Bands overlap by half. Their power grows with their width, as an ear's does: 3 dB per octave over a power density."""
LOWEST_HZ = 125.0
HIGHEST_SHARE = 0.475
"""Of the sample rate: what anti-aliasing filters leave."""
SMOOTH_FRAMES = 31
"""Median over 0.3 s of heard frames: the edge wanders from one speech sound to the next. A median keeps a step where it is."""
WINDOW_S = meters.SPECTRUM_WINDOW_S
LOUD_SHARE = 95.0
"""Percentile of a band's level over all frames that tells what a recording has there: fricatives are few, and count."""
REACH_DEPTH_DB = 50.0
"""Depth at which a source must reach up to what a sweep acts on: heard for sure, where `EDGE_DEPTH_DB` is about at threshold."""
SURE_SHARE = 25.0
"""Percentile of a source's reach over its frames that counts."""
FLOOR_PERCENTILE = 2.0
ABOVE_FLOOR_DB = 6.0
"""By how much a band's loud moments must exceed its own floor: a band that only hisses holds nothing of the voice."""
LEAST_DENSITY = 2.0**-30 / 12.0 * 10.0**0.6
"""Mean square over all bins, 6 dB over the rounding noise of 16 bit: what is less, a file of 16 bit can't tell."""


@lru_cache(maxsize=8)
def _bands(n_bins: int, sample_rate_hz: int) -> tuple[FloatArray, FloatArray]:
    """Octave re 1 kHz of each band's centre, shape (n_bands,), and its share of each bin's power, shape (n_bands, n_bins)."""
    lowest = np.log2(LOWEST_HZ / meters.REFERENCE_HZ)
    highest = np.log2(HIGHEST_SHARE * sample_rate_hz / meters.REFERENCE_HZ)
    octave = np.arange(lowest, highest, 1.0 / BANDS_PER_OCTAVE)
    width_hz = sample_rate_hz / 2.0 / (n_bins - 1)
    centre_hz = np.arange(n_bins) * width_hz
    low_hz, high_hz = (meters.REFERENCE_HZ * 2.0 ** (octave[:, None] + half) for half in (-BAND_WIDTH_OCTAVES / 2, BAND_WIDTH_OCTAVES / 2))
    overlap_hz = np.minimum(high_hz, centre_hz + width_hz / 2.0) - np.maximum(low_hz, centre_hz - width_hz / 2.0)
    return octave, np.clip(overlap_hz / width_hz, 0.0, 1.0)


def upper_edge_octaves(sound: Sound, depth_db: float = EDGE_DEPTH_DB) -> Contour:
    """Highest frequency within `depth_db` of each frame's strongest sixth-octave band, in octaves re 1 kHz.

    Interpolated between bands, then a median over 0.3 s of heard frames.

    Returns
    -------
    Contour
        At 10 ms steps; `nan` in frames more than 20 dB under the loud ones. A sound without an edge reads the highest band
        below 0.475 of its sample rate. Empty for a sound under 64 ms.
    """
    time_s, power = meters.spectrogram(sound)
    if time_s.size == 0:
        return meters.EMPTY
    octave, share = _bands(power.shape[0], sound.sample_rate_hz)
    level_db = 10.0 * np.log10(np.maximum(share @ power, 10.0 ** (meters.FLOOR_DB / 10.0)))
    edge = _highest_above(octave, level_db - level_db.max(axis=0) + depth_db)
    heard = meters.audible(meters.frame_level_db(sound).value)
    return statistics.smooth(Contour(time_s, np.where(heard, edge, np.nan), heard), SMOOTH_FRAMES)


def reach_octaves(sound: Sound) -> float:
    """How far up a sound reaches in three quarters of its heard frames, octaves re 1 kHz; -inf where nothing is heard."""
    edge = upper_edge_octaves(sound, REACH_DEPTH_DB)
    return float(np.percentile(edge.value[edge.valid], SURE_SHARE)) if edge.valid.any() else -np.inf


def bandwidth_hz(sound: Sound) -> float:
    """How far up a whole recording reaches: what a resampler, a codec or a microphone has left of it.

    The highest frequency at which the loud moments of a sixth-octave band (95th percentile over time) are within 55 dB of those of
    the strongest band, 6 dB over the band's own floor (2nd percentile), and over the rounding noise of 16 bit. A rate in a file's
    header tells none of this: a recording of 8 kHz that was resampled to 16 kHz still ends at 4 kHz.

    Parameters
    ----------
    sound
        A whole recording: a short stretch without fricatives reaches less far than its microphone.

    Returns
    -------
    float
        Hz, right to some 5 %; 0.472 of the sample rate at most, which is the highest band. 0 where there's nothing: a sound under
        64 ms, silence, or steady noise.
    """
    return reach_hz([band_power(sound)], sound.sample_rate_hz)


def band_power(sound: Sound) -> FloatArray:
    """Power in bands of a sixth of an octave, each frame; float64, shape (n_bands, n_frames)."""
    _, power = meters.spectrogram(sound)
    return _bands(power.shape[0], sound.sample_rate_hz)[1] @ power


def reach_hz(pieces: Sequence[FloatArray], sample_rate_hz: int) -> float:
    """How far up a recording reaches, as `bandwidth_hz`, from the `band_power` of its pieces."""
    if not sum(piece.shape[1] for piece in pieces):
        return 0.0
    n_bins = meters.spectrum_frames(sample_rate_hz)[0] // 2 + 1
    octave, share = _bands(n_bins, sample_rate_hz)
    bands = (np.concatenate([piece[number] for piece in pieces]) for number in range(len(octave)))
    floor, loud = np.array([np.percentile(band, [FLOOR_PERCENTILE, LOUD_SHARE]) for band in bands]).T
    least = share.sum(axis=1) * LEAST_DENSITY / n_bins
    told = loud > np.maximum(floor * 10.0 ** (ABOVE_FLOOR_DB / 10.0), least)
    if not told.any():
        return 0.0
    level_db = 10.0 * np.log10(np.where(told, loud, 10.0 ** (meters.FLOOR_DB / 10.0)))
    return float(meters.REFERENCE_HZ * 2.0 ** _highest_above(octave, (level_db - level_db.max() + EDGE_DEPTH_DB)[:, None])[0])


def _highest_above(octave: FloatArray, over_db: FloatArray) -> FloatArray:
    """Where each frame's level last falls through 0 dB, straight between bands.

    Parameters
    ----------
    octave
        float64, shape (n_bands,).
    over_db
        float64, shape (n_bands, n_frames): level over the threshold; at least one band of each frame is at 0 or above.

    Returns
    -------
    ndarray
        float64, shape (n_frames,).
    """
    last = len(octave) - 1 - np.argmax(over_db[::-1] >= 0.0, axis=0)
    after = np.minimum(last + 1, len(octave) - 1)
    frame = np.arange(over_db.shape[1])
    here, fall = over_db[last, frame], over_db[last, frame] - over_db[after, frame]
    beyond = np.where(fall > 0.0, here / np.where(fall > 0.0, fall, 1.0), 0.0)
    found: FloatArray = octave[last] + beyond / BANDS_PER_OCTAVE
    return found
