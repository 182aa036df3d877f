"""Spectral envelopes: reading them, moving them along log frequency, measuring how far they moved.

Shifts are 100 times the natural logarithm of a factor on frequency: 10 is about 10 % up, as from a vocal tract 10 % shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import fft as scipy_fft
from scipy import ndimage

from builder.acoustics import filters, meters, praat
from builder.records import Contour, FloatArray, Sound

MAX_BAND_GAIN_DB = 40.0
MAX_WARP_GAIN_DB = 20.0
EDGE_SHARE = 0.85
"""Of half the sample rate: above is the slope of a recording's own filters, which must not move with the voice."""
ENVELOPE_STEP_FRAMES = 2
DEFAULT_F0_HZ = 200.0
"""Where a sound has no F0."""
SHIFT_WINDOW_S = 0.4
SHIFT_HOP_S = 0.1
SHIFT_BAND_HZ = (250.0, 5500.0)
SHIFT_STEP = 0.01
"""Of the grid in natural log of frequency; shifts are read between its points."""
MAX_SHIFT = 0.45
SHIFT_PASSES = 4
SHIFT_DEPTH_DB = 50.0
SMOOTHING_HARMONICS = 0.6
"""Standard deviation of the smoothing over frequency, in harmonics: enough to leave no single harmonic standing out."""
FORMANT_STEP_S = 0.02
FORMANT_CEILING_HZ = 5500.0
N_FORMANTS = 5
"""Five formants under 5.5 kHz is what Praat's manual gives for a woman's voice; here it need only be the same over a clip."""
FORMANT_BLUR = 0.08


def with_bands_of(sound: Sound, reference: Sound) -> Sound:
    """A steady mono sound with the third-octave levels and then the tilt of a reference, as nearly as a smooth gain can.

    Parameters
    ----------
    reference
        Steady, at the same rate. Its median band levels are brought to the sound by a gain that is straight over log frequency
        between the bands' middles; what is left of the tilt, where bands between low harmonics can't be emptied, by a tilt.

    Returns
    -------
    Sound
        As many samples; unchanged where either is too short to have a spectrum.
    """
    if min(len(meters.third_octave_levels_db(each)[0]) for each in (sound, reference)) == 0:
        return sound
    wanted, now = (np.median(meters.third_octave_levels_db(each)[1], axis=1) for each in (reference, sound))
    band_gain_db = np.clip(wanted - now, -MAX_BAND_GAIN_DB, MAX_BAND_GAIN_DB)
    frequency_hz = scipy_fft.rfftfreq(len(sound.samples), 1.0 / sound.sample_rate_hz)
    gain_db = np.interp(np.log(np.maximum(frequency_hz, 1.0)), np.log(meters.THIRD_OCTAVE_HZ), band_gain_db)
    spectrum = scipy_fft.rfft(sound.samples) * 10.0 ** (gain_db / 20.0)
    made = Sound(scipy_fft.irfft(spectrum, len(sound.samples)), sound.sample_rate_hz)
    tilts = [np.nanmean(meters.spectral_tilt_db_per_octave(each).value) for each in (reference, made)]
    return filters.tilted(made, partial(np.full_like, fill_value=tilts[0] - tilts[1]))


def warped(sound: Sound, log_scale: Callable[[FloatArray], FloatArray]) -> Sound:
    """A mono sound whose spectral envelope is moved along frequency over time, its harmonics and noise left where they are.

    Each spectral bin gets the gain env(f / scale) - env(f), within 20 dB; no change where the scale is 1.

    Parameters
    ----------
    log_scale
        Of time_s, any shape: 100 ln(scale) there, same shape.

    Returns
    -------
    Sound
        As many samples; unchanged under 64 ms.
    """
    at_s, envelope_db = sound.once("peak_envelope_db", peak_envelope_db)
    if len(at_s) == 0:
        return sound
    own_hz = np.linspace(0.0, sound.sample_rate_hz / 2.0, envelope_db.shape[1])
    edge_hz = EDGE_SHARE * own_hz[-1]

    def gain_db(time_s: FloatArray, frequency_hz: FloatArray) -> FloatArray:
        place = np.interp(time_s[:, 0], at_s, np.arange(len(at_s)))
        before, share = np.floor(place).astype(int), (place % 1.0)[:, None]
        envelope = (1.0 - share) * envelope_db[before] + share * envelope_db[np.minimum(before + 1, len(at_s) - 1)]
        old_hz = np.minimum(frequency_hz, edge_hz)
        new_hz = np.minimum(frequency_hz * np.exp(-log_scale(time_s) / 100.0), edge_hz)
        change = _read(envelope, new_hz / own_hz[1]) - _read(envelope, np.broadcast_to(old_hz / own_hz[1], new_hz.shape))
        clipped: FloatArray = np.clip(change, -MAX_WARP_GAIN_DB, MAX_WARP_GAIN_DB)
        return clipped

    return filters.filtered(sound, gain_db)


def _read(rows: FloatArray, place: FloatArray) -> FloatArray:
    """Each row between its points, straight: at places in points from its first; float64, shape of `place`."""
    before = np.minimum(place.astype(np.int64), rows.shape[1] - 2)
    left, right = (np.take_along_axis(rows, before + step, axis=1) for step in (0, 1))
    value: FloatArray = left + (place - before) * (right - left)
    return value


def peak_envelope_db(sound: Sound) -> tuple[FloatArray, FloatArray]:
    """Envelope over the peaks of harmonics of a sound with a steady F0, each 20 ms.

    Each bin takes the highest level within half of F0 on either side, which is a harmonic's; the steps are then smoothed by a
    raised-cosine lifter on the cepstrum that ends at one over F0. (A true envelope by cepstral smoothing in steps, in a lifter as
    wide as half of that, dips by 10 dB between harmonics.)

    Returns
    -------
    time_s
        float64, shape (n_frames,); empty under 64 ms.
    envelope_db
        float64, shape (n_frames, n_bins): dB from 0 Hz to half the sample rate.
    """
    time_s, power = meters.spectrogram(sound)
    level_db = 10.0 * np.log10(np.maximum(power.T[::ENVELOPE_STEP_FRAMES], 1e-12))
    f0_hz = _f0_hz(sound)
    spacing_hz = sound.sample_rate_hz / 2.0 / (power.shape[0] - 1)
    peaks_db = ndimage.maximum_filter1d(level_db, max(round(f0_hz / spacing_hz), 1), axis=1, mode="nearest")
    cepstrum = scipy_fft.irfft(peaks_db, axis=1)
    quefrency = np.minimum(np.arange(cepstrum.shape[1]), cepstrum.shape[1] - np.arange(cepstrum.shape[1]))
    lifter = 0.5 + 0.5 * np.cos(np.pi * np.minimum(quefrency * f0_hz / sound.sample_rate_hz, 1.0))
    return time_s[::ENVELOPE_STEP_FRAMES], scipy_fft.rfft(cepstrum * lifter, axis=1).real


def _f0_hz(sound: Sound) -> float:
    """Median F0, or a default where there is none."""
    found = meters.f0_semitones(sound)
    return 100.0 * 2.0 ** (float(np.median(found.value[found.valid])) / 12.0) if found.valid.any() else DEFAULT_F0_HZ


def shift(sound: Sound) -> Contour:
    """How far the spectral envelope has moved along log frequency from the clip's own mean envelope.

    Power spectra are averaged over Hann windows of 0.4 s and smoothed over 0.6 of F0. Each is then correlated with the mean of
    all, at shifts up to a factor of 1.57; the mean is made anew of the envelopes moved back, four times over.

    Returns
    -------
    Contour
        100 ln(factor) at 0.1 s steps, of mean 0; `nan` in windows more than 20 dB under the loud ones. Empty under 0.5 s.
    """
    return sound.once("envelope shift", _shift)


def _shift(sound: Sound) -> Contour:
    time_s, power = meters.spectrogram(sound)
    width, hop = round(SHIFT_WINDOW_S / meters.SPECTRUM_HOP_S), round(SHIFT_HOP_S / meters.SPECTRUM_HOP_S)
    if len(time_s) < width:
        return meters.EMPTY
    window = np.hanning(width + 2)[1:-1] / np.sum(np.hanning(width + 2))
    mean = np.lib.stride_tricks.sliding_window_view(power, width, axis=1)[:, ::hop] @ window
    centre_s = np.lib.stride_tricks.sliding_window_view(time_s, width)[::hop].mean(axis=1)
    heard = meters.audible(10.0 * np.log10(mean.sum(axis=0) + 1e-12))
    value = np.full(len(centre_s), np.nan)
    if heard.any():
        value[heard] = 100.0 * _aligned(_on_log_grid(mean[:, heard], sound))
    return Contour(centre_s, value, heard)


def _on_log_grid(power: FloatArray, sound: Sound) -> FloatArray:
    """Smoothed levels in dB on a grid of log frequency; shape (n_frames, n_grid)."""
    spacing_hz = sound.sample_rate_hz / 2.0 / (power.shape[0] - 1)
    smooth = ndimage.gaussian_filter1d(power, SMOOTHING_HARMONICS * _f0_hz(sound) / spacing_hz, axis=0)
    place = np.arange(np.log(SHIFT_BAND_HZ[0]), np.log(min(SHIFT_BAND_HZ[1], 0.45 * sound.sample_rate_hz)), SHIFT_STEP)
    level_db = 10.0 * np.log10(smooth + 1e-12)
    on_grid = np.array([np.interp(np.exp(place) / spacing_hz, np.arange(len(level_db)), column) for column in level_db.T])
    deep: FloatArray = np.maximum(on_grid, on_grid.max(axis=1, keepdims=True) - SHIFT_DEPTH_DB)
    return deep


def _aligned(level_db: FloatArray) -> FloatArray:
    """Shift of each row, in natural log of frequency, that brings all rows to their common mean; float64, shape (n_rows,)."""
    grid = np.arange(level_db.shape[1], dtype=np.float64)
    shifts = np.zeros(len(level_db))
    for _ in range(SHIFT_PASSES):
        back = [np.interp(grid + moved / SHIFT_STEP, grid, row) for moved, row in zip(shifts, level_db, strict=True)]
        shifts = _lag_of_best_match(level_db, np.mean(back, axis=0)) * SHIFT_STEP
        shifts -= np.mean(shifts)
    return shifts


def _sums(rows: FloatArray, start: np.ndarray, end: np.ndarray) -> FloatArray:
    """Of each row, its sums from some places up to before others; float64, shape (n_rows, n_places)."""
    total = np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0)))
    return total[:, end] - total[:, start]


def _lag_of_best_match(rows: FloatArray, reference: FloatArray) -> FloatArray:
    """Lag in grid points at which each row correlates best with a reference, read between points by a parabola."""
    furthest, n = round(MAX_SHIFT / SHIFT_STEP), len(reference)
    lags = np.arange(-furthest, furthest + 1)
    rows, reference = rows - rows.mean(axis=1, keepdims=True), reference - reference.mean()
    at_lag = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(np.pad(reference, furthest), n)[::-1])
    moved = np.maximum(lags, 0), n + np.minimum(lags, 0)
    still = np.maximum(-lags, 0), n + np.minimum(-lags, 0)
    sums = _sums(rows, *moved), _sums(reference[None], *still)
    squares = _sums(rows**2, *moved), _sums(reference[None] ** 2, *still)
    n_pairs = n - np.abs(lags)
    spread = [np.maximum(square - total**2 / n_pairs, 0.0) for square, total in zip(squares, sums, strict=True)]
    score = ((rows @ at_lag.T - sums[0] * sums[1] / n_pairs) / np.sqrt(np.maximum(spread[0] * spread[1], 1e-12))).T
    best = np.clip(np.argmax(score, axis=0), 1, len(lags) - 2).astype(np.int64)
    every = np.arange(len(rows))
    left, middle, right = score[best - 1, every], score[best, every], score[best + 1, every]
    bend = np.minimum(left - 2.0 * middle + right, -1e-12)
    found: FloatArray = lags[best] + np.clip(0.5 * (left - right) / bend, -0.5, 0.5)
    return found


def formant_shift(sound: Sound) -> Contour:
    """How far the formants have moved along log frequency from where they lie in the clip on average.

    Formants by Burg's method, each frame on its own, are laid into a histogram over log frequency for each 0.4 s, blurred by
    8 %; histograms are brought to their common mean as envelopes are by `shift`. No formant has to be told from another.

    Returns
    -------
    Contour
        100 ln(factor) at 0.1 s steps, of mean 0; `nan` in windows without formants, or more than 20 dB under the loud ones.
        Empty under 0.5 s.
    """
    level = meters.frame_level_db(sound)
    n_frames, hop = round(SHIFT_WINDOW_S / FORMANT_STEP_S), round(SHIFT_HOP_S / FORMANT_STEP_S)
    time_s, frequency_hz = praat.formants_hz(sound, FORMANT_STEP_S, min(FORMANT_CEILING_HZ, 0.5 * sound.sample_rate_hz), N_FORMANTS)
    if len(time_s) < n_frames or level.value.size == 0:
        return meters.EMPTY
    nearest = np.clip(np.searchsorted(level.time_s, time_s), 0, level.value.size - 1)
    place = np.where(meters.audible(level.value)[nearest], np.log(frequency_hz), np.nan)
    windows = (
        np.lib.stride_tricks.sliding_window_view(place, n_frames, axis=1)[:, ::hop].transpose(1, 0, 2).reshape(-1, N_FORMANTS * n_frames)
    )
    grid = np.arange(np.log(SHIFT_BAND_HZ[0]), np.log(SHIFT_BAND_HZ[1]), SHIFT_STEP)
    counts = np.array([_blurred(row[np.isfinite(row)], grid) for row in windows])
    centre_s = np.lib.stride_tricks.sliding_window_view(time_s, n_frames)[::hop].mean(axis=1)
    heard = np.isfinite(windows).sum(axis=1) >= n_frames
    value = np.full(len(centre_s), np.nan)
    if heard.any():
        value[heard] = 100.0 * _aligned(counts[heard])
    return Contour(centre_s, value, heard)


def _blurred(place: FloatArray, grid: FloatArray) -> FloatArray:
    """Sum of Gaussians about places, at the points of a grid."""
    total: FloatArray = np.exp(-0.5 * ((grid[:, None] - place[None, :]) / FORMANT_BLUR) ** 2).sum(axis=1)
    return total
