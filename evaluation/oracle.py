"""Answers every item of a dataset from its sound alone, by measures that no label was made with.

    python -m evaluation.oracle --dataset vocalgrad

The oracle is told the question (the item's dimension) and the two choices; of the rest of a row it reads the answer, to score
itself, and the columns that the table is split by. It finds the active stretch by itself. Each dimension is one function,
(samples, rate) -> a value per frame, `nan` where there is none, that rises with what the question calls it; the answer is the
sign of the last third's median minus the first's. Where a change is heard as a whole (tempo, formants), the function
returns the signed change itself.

A dimension may go without a measure: then the oracle isn't asked about it, and the table and the audit say so. What labels are made
with, as measure or as witness, isn't used here; see `builder/dimensions/`.

References
----------
de Cheveigne, A. & Kawahara, H. (2002). YIN, a fundamental frequency estimator for speech and music. JASA 111(4), 1917-1930.
IEC 61672-1:2013. Sound level meters (A-weighting, annex E).
Makhoul, J. (1975). Linear prediction: a tutorial review. Proceedings of the IEEE 63(4), 561-580.
Wen, J. Y. C., Habets, E. A. P. & Naylor, P. A. (2008). Blind estimation of reverberation time based on the distribution of signal
decay rates. ICASSP, 329-332.
Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. JASA 22, 209-212.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from scipy import fft, linalg, ndimage, signal

FloatArray = NDArray[np.float64]

RATE_HZ = 16_000
"""Measures that look at time more than at high frequencies work at this rate."""
HOP_S = 0.01
PAUSE_DB = 20.0
"""A frame this far under the loudest within half a second is a pause."""


# -- what is shared ---------------------------------------------------------------------------------------------------


def change(values: FloatArray) -> float:
    """Median of the last third of the frames minus that of the first; `nan` where either has fewer than two values."""
    third = max(len(values) // 3, 1)
    ends = [part[np.isfinite(part)] for part in (values[:third], values[-third:])]
    if min(map(len, ends)) < 2:
        return float("nan")
    return float(np.median(ends[1]) - np.median(ends[0]))


def mono(samples: FloatArray) -> FloatArray:
    """Mean of the channels of samples of shape (n,) or (n, channels)."""
    return samples if samples.ndim == 1 else samples.mean(axis=1)


def at_rate(samples: FloatArray, rate: int) -> FloatArray:
    """Mono samples at 16 kHz."""
    return mono(samples) if rate == RATE_HZ else np.asarray(soxr.resample(mono(samples), rate, RATE_HZ), dtype=np.float64)


def framed(samples: FloatArray, width: int, hop: int) -> FloatArray:
    """Frames of a signal, shape (n_frames, width); a signal that's shorter than a frame is padded to one."""
    padded = np.pad(samples, (0, max(width - len(samples), 0)))
    return np.lib.stride_tricks.sliding_window_view(padded, width)[::hop]


def spectrogram(samples: FloatArray, rate: int, width_s: float, hop_s: float = HOP_S) -> tuple[FloatArray, FloatArray]:
    """Power in Hann windows: frequencies (Hz), and power of shape (n_frames, n_bins)."""
    width = round(width_s * rate)
    frames = framed(mono(samples), width, max(round(hop_s * rate), 1)) * np.hanning(width + 1)[:-1]
    size = fft.next_fast_len(width, real=True)
    power: FloatArray = np.abs(fft.rfft(frames, size, axis=1)) ** 2
    return fft.rfftfreq(size, 1.0 / rate), power


def decibels(power: FloatArray) -> FloatArray:
    """10 log10, no lower than -120."""
    level: FloatArray = 10.0 * np.log10(np.maximum(power, 1e-12))
    return level


def sounding(power: FloatArray, hop_s: float = HOP_S) -> NDArray[np.bool_]:
    """Which frames of a power over time are no pause."""
    level = decibels(power)
    loud = ndimage.maximum_filter1d(level, 2 * round(0.5 / hop_s) + 1, mode="nearest")
    heard: NDArray[np.bool_] = (level > loud - PAUSE_DB) & (level > level.max() - 45.0)
    return heard


def in_bands(frequency_hz: FloatArray, power: FloatArray, edges_hz: FloatArray) -> FloatArray:
    """Power per band between neighbouring edges, shape (n_frames, n_edges - 1); 0 in a band that holds no bin."""
    bins = np.searchsorted(frequency_hz, edges_hz)
    total = np.concatenate([np.zeros((len(power), 1)), np.cumsum(power, axis=1)], axis=1)
    band: FloatArray = total[:, bins[1:]] - total[:, bins[:-1]]
    return band


# -- pitch ------------------------------------------------------------------------------------------------------------

YIN_WINDOW_S = 0.025
YIN_RANGE_HZ = (60.0, 800.0)
YIN_LOW_PASS_HZ = 1000.0
OCTAVE_COST = 0.05
"""Per octave of period: without it twice the period is as good as once."""
JUMP_COST = 0.5
"""Per octave from frame to frame."""
NO_DIP = 4.0
N_CANDIDATES = 6


def yin(samples: FloatArray, rate: int) -> tuple[FloatArray, FloatArray]:
    """F0 (Hz, never `nan`) and aperiodicity (the dip of YIN's normalised difference, 0 periodic to about 1) each 10 ms.

    Of each frame's deepest dips those are taken that make the smoothest path through the clip, by dynamic programming; YIN
    itself takes each frame's first that is deep enough, and so jumps octaves.
    """
    x = at_rate(samples, rate)
    shortest, longest = int(RATE_HZ / YIN_RANGE_HZ[1]), int(RATE_HZ / YIN_RANGE_HZ[0])
    width = round(YIN_WINDOW_S * RATE_HZ)
    frames = framed(x, width + longest + 1, round(HOP_S * RATE_HZ))
    size = fft.next_fast_len(frames.shape[1] + width, real=True)
    spectrum = fft.rfft(frames, size, axis=1) * np.conj(fft.rfft(frames[:, :width], size, axis=1))
    product = fft.irfft(spectrum, size, axis=1)[:, : longest + 2]
    energy = np.concatenate([np.zeros((len(frames), 1)), np.cumsum(frames**2, axis=1)], axis=1)
    moved = energy[:, width : width + longest + 2] - energy[:, : longest + 2]
    difference = np.maximum(moved[:, :1] + moved - 2.0 * product, 0.0)
    mean = np.cumsum(difference[:, 1:], axis=1) / np.arange(1, longest + 2)
    dip = np.concatenate([np.ones((len(frames), 1)), difference[:, 1:] / np.maximum(mean, 1e-12)], axis=1)
    lags = np.arange(shortest, longest + 1)
    score, before, after = dip[:, lags], dip[:, lags - 1], dip[:, lags + 1]
    cost = np.where((score <= before) & (score <= after), score + OCTAVE_COST * np.log2(lags), NO_DIP)
    best = _smoothest(cost, np.log2(lags))
    row = np.arange(len(frames))
    left, bottom, right = before[row, best], score[row, best], after[row, best]
    bend = left - 2.0 * bottom + right
    shift = np.where(bend > 1e-12, 0.5 * (left - right) / np.maximum(bend, 1e-12), 0.0)
    return RATE_HZ / (lags[best] + np.clip(shift, -0.5, 0.5)), bottom


def _smoothest(cost: FloatArray, octave: FloatArray) -> NDArray[np.int64]:
    """Which of the cheapest columns to take in each row, so that columns' cost and jumps between rows cost least together."""
    candidate = np.argsort(cost, axis=1)[:, :N_CANDIDATES]
    own, where = np.take_along_axis(cost, candidate, axis=1), octave[candidate]
    jump = JUMP_COST * np.abs(where[1:, :, None] - where[:-1, None, :])
    total, came = own[0], np.zeros(candidate.shape, dtype=np.int64)
    for i in range(1, len(cost)):
        ways = total[None, :] + jump[i - 1]
        came[i] = np.argmin(ways, axis=1)
        total = own[i] + np.min(ways, axis=1)
    path = np.zeros(len(cost), dtype=np.int64)
    path[-1] = np.argmin(total)
    for i in range(len(cost) - 1, 0, -1):
        path[i - 1] = came[i, path[i]]
    return candidate[np.arange(len(cost)), path]


def f0(samples: FloatArray, rate: int, most_aperiodic: float) -> FloatArray:
    """YIN's F0 of the sound below about 1 kHz, where a glide spoils the likeness of periods least; octaves re 1 Hz."""
    x = at_rate(samples, rate)
    f0_hz, aperiodicity = yin(signal.sosfiltfilt(signal.butter(1, YIN_LOW_PASS_HZ, fs=RATE_HZ, output="sos"), x), RATE_HZ)
    return np.where((aperiodicity < most_aperiodic) & _sounding_at(x, len(f0_hz)), np.log2(f0_hz), np.nan)


def _sounding_at(x: FloatArray, n_frames: int) -> NDArray[np.bool_]:
    """Which of YIN's frames are no pause."""
    return sounding(np.mean(framed(x, round(YIN_WINDOW_S * RATE_HZ), round(HOP_S * RATE_HZ)) ** 2, axis=1)[:n_frames])


def pitch(samples: FloatArray, rate: int) -> FloatArray:
    """F0, octaves."""
    return f0(samples, rate, 0.3)


# -- loudness and brightness ------------------------------------------------------------------------------------------


def a_weighting(frequency_hz: FloatArray) -> FloatArray:
    """A-weighting as a factor on power; 1 at 1 kHz, to 0.01 dB."""
    square = frequency_hz**2
    gain = 12194.0**2 * square**2 / ((square + 20.6**2) * np.sqrt((square + 107.7**2) * (square + 737.9**2)) * (square + 12194.0**2))
    weight: FloatArray = (gain * 10.0**0.1) ** 2
    return weight


def loudness(samples: FloatArray, rate: int) -> FloatArray:
    """A-weighted level of the 0.2 s about each frame, over which hearing sums up, dB."""
    frequency_hz, power = spectrogram(samples, rate, 0.05)
    weighted = ndimage.uniform_filter1d(power @ a_weighting(frequency_hz), round(0.2 / HOP_S), mode="nearest")
    return np.where(sounding(weighted), decibels(weighted), np.nan)


def brightness(samples: FloatArray, rate: int) -> FloatArray:
    """Centroid in octaves of the strongly compressed spectrum (quarter-octave bands above 150 Hz): what is faint counts too."""
    frequency_hz, power = spectrogram(samples, rate, 0.05)
    edges_hz = 150.0 * 2.0 ** np.arange(0.0, np.log2(min(rate / 2.0, 8000.0) / 150.0) + 1e-9, 0.25)
    band = in_bands(frequency_hz, power, edges_hz)
    compressed = (band / np.maximum(band.max(axis=1, keepdims=True), 1e-12)) ** 0.15
    centroid = compressed @ np.log2(edges_hz[1:]) / np.maximum(compressed.sum(axis=1), 1e-12)
    return np.where(sounding(power.sum(axis=1)), centroid, np.nan)


# -- tempo ------------------------------------------------------------------------------------------------------------

ONSET_HOP_S = 0.008
BEAT_RANGE_HZ = (1.8, 8.0)
WARPS: FloatArray = np.linspace(-0.5, 0.5, 81)


def onset_strength(samples: FloatArray, rate: int) -> FloatArray:
    """Rise of the compressed spectrum from frame to frame, summed over third-octave bands, each 8 ms."""
    frequency_hz, power = spectrogram(at_rate(samples, rate), RATE_HZ, 0.032, ONSET_HOP_S)
    band = in_bands(frequency_hz, power, 150.0 * 2.0 ** np.arange(0.0, 5.7, 1.0 / 3.0))
    level = np.maximum(decibels(band), decibels(band).max() - 50.0)
    rise: FloatArray = np.maximum(np.diff(level, axis=0), 0.0).sum(axis=1)
    return ndimage.gaussian_filter1d(rise, 2.0)


def tempo(samples: FloatArray, rate: int) -> float:
    """Change of ln(rate): the glide or the step of a beat with its overtones that fits the onsets best.

    Time is bent so that a beat with that change would be steady; the sharpest spectral line tells the right bend.
    """
    onset = onset_strength(samples, rate)
    onset = onset - onset.mean()
    where = np.linspace(-1.0, 1.0, len(onset))
    size = fft.next_fast_len(8 * len(onset), real=True)
    beat = np.arange(int(BEAT_RANGE_HZ[0] * size * ONSET_HOP_S), int(BEAT_RANGE_HZ[1] * size * ONSET_HOP_S) + 1)
    found = []
    for shape in ((where**2 - 1.0) / 2.0, np.abs(where) - 1.0):
        bent = np.array([np.interp(where, where + warp * shape, onset) for warp in WARPS])
        line = np.abs(fft.rfft(bent, size, axis=1)) ** 2
        score = np.max(sum(line[:, k * beat] for k in (1, 2, 3)), axis=1)
        best = int(np.clip(np.argmax(score), 1, len(WARPS) - 2))
        left, top, right = score[best - 1 : best + 2]
        bend = left - 2.0 * top + right
        step = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
        found.append((float(top), float(2.0 * (WARPS[best] + step * (WARPS[1] - WARPS[0])))))
    return max(found)[1]


# -- modulation -------------------------------------------------------------------------------------------------------


def swing(values: FloatArray, hop_s: float, low_hz: float, high_hz: float, window_s: float = 0.5) -> FloatArray:
    """Local RMS of a contour behind a band-pass; gaps are bridged straight for it, don't count, and are gaps again in the result."""
    known = np.isfinite(values)
    if known.sum() < 2 or len(values) < 16:
        return np.full(len(values), np.nan)
    whole = np.interp(np.arange(len(values)), np.flatnonzero(known), values[known])
    band = signal.butter(2, [low_hz, high_hz], "bandpass", fs=1.0 / hop_s, output="sos")
    square = np.where(known, signal.sosfiltfilt(band, whole) ** 2, 0.0)
    total, share = (ndimage.uniform_filter1d(part, round(window_s / hop_s), mode="nearest") for part in (square, known.astype(np.float64)))
    return np.where(known, np.sqrt(np.maximum(total, 0.0) / np.maximum(share, 1e-9)), np.nan)


FURTHEST_SWING = 0.5


def vibrato(samples: FloatArray, rate: int) -> FloatArray:
    """Swing of YIN's F0 at 3.5 to 8.5 Hz, octaves RMS; what lies over half an octave from the clip's middle is an error, no swing."""
    octave = f0(samples, rate, 0.6)
    if np.isfinite(octave).any():
        octave[np.abs(octave - np.nanmedian(octave)) > FURTHEST_SWING] = np.nan
    return swing(octave, HOP_S, 3.5, 8.5)


def tremolo(samples: FloatArray, rate: int) -> FloatArray:
    """Swing of band levels at 3 to 8 Hz, dB RMS: of their mean over half-octave bands, in which a noise's own swing averages out."""
    frequency_hz, power = spectrogram(at_rate(samples, rate), RATE_HZ, 0.032)
    band = decibels(in_bands(frequency_hz, power, 100.0 * 2.0 ** np.arange(0.0, 6.3, 0.5)))
    return swing(np.maximum(band, band.max() - 50.0).mean(axis=1), HOP_S, 3.0, 8.0)


ROUGH_BANDS_HZ = ((250.0, 800.0), (800.0, 2000.0), (2000.0, 6000.0))


def roughness(samples: FloatArray, rate: int) -> FloatArray:
    """Modulation at 40 to 110 Hz of the rectified signal in three wide bands, relative to its mean, the mean over bands."""
    x, step = at_rate(samples, rate), 16
    bands = []
    for low_hz, high_hz in ROUGH_BANDS_HZ:
        inside = signal.sosfilt(signal.butter(2, [low_hz, high_hz], "bandpass", fs=RATE_HZ, output="sos"), x)
        envelope = np.abs(inside)[: len(x) // step * step].reshape(-1, step).mean(axis=1)
        mean = ndimage.uniform_filter1d(envelope, 200, mode="nearest")
        bands.append(swing(envelope, step / RATE_HZ, 40.0, 110.0, 0.2) / np.maximum(mean, 1e-6))
    mean_of_bands: FloatArray = np.mean(bands, axis=0)
    return mean_of_bands


# -- periodicity ------------------------------------------------------------------------------------------------------


def breathiness(samples: FloatArray, rate: int) -> FloatArray:
    """YIN's aperiodicity, natural logarithm."""
    x = at_rate(samples, rate)
    _, aperiodicity = yin(x, RATE_HZ)
    return np.where(_sounding_at(x, len(aperiodicity)), np.log(np.maximum(aperiodicity, 1e-6)), np.nan)


def periods(samples: FloatArray, rate: int) -> FloatArray:
    """Start and length of each period, s, shape (n_periods, 2): the lag at which a wave repeats itself best, period by period.

    Searched within 15 % of YIN's period, by the normalised correlation of one period with what follows it.
    """
    x = at_rate(samples, rate)
    f0_hz, aperiodicity = yin(x, RATE_HZ)
    smooth_hz = ndimage.median_filter(f0_hz, 15, mode="nearest")
    found: list[tuple[float, float]] = []
    at = 0
    while True:
        frame = min(int(at / RATE_HZ / HOP_S), len(f0_hz) - 1)
        period = RATE_HZ / smooth_hz[frame]
        least, most = int(0.85 * period), int(np.ceil(1.15 * period)) + 1
        width = round(period)
        if at + most + width + 1 > len(x):
            return np.array(found).reshape(-1, 2)
        ahead = x[at + least - 1 : at + most + 1 + width]
        energy = np.concatenate([[0.0], np.cumsum(ahead**2)])
        product = np.correlate(ahead, x[at : at + width])
        score = product / np.sqrt(np.maximum(energy[width : width + len(product)] - energy[: len(product)], 1e-12))
        best = int(np.argmax(score[1:-1])) + 1
        bend = score[best - 1] - 2.0 * score[best] + score[best + 1]
        shift = 0.5 * (score[best - 1] - score[best + 1]) / bend if bend < 0.0 else 0.0
        length = least - 1 + best + float(np.clip(shift, -0.5, 0.5))
        found.append((at / RATE_HZ, length / RATE_HZ if aperiodicity[frame] < 0.5 else np.nan))
        at += round(length)


def hoarseness(samples: FloatArray, rate: int) -> FloatArray:
    """Difference of neighbouring periods, natural logarithm of its local mean relative to the period; one value per period."""
    found = periods(samples, rate)
    if np.isfinite(found[:, 1]).sum() < 8:
        return np.zeros(0)
    step = np.abs(np.diff(np.log(found[:, 1])))
    step[step > 0.2] = np.nan
    known = np.isfinite(step)
    width = max(round(0.3 / float(np.nanmedian(found[:, 1]))), 3)
    total, count = (
        ndimage.uniform_filter1d(part, width, mode="nearest") for part in (np.where(known, step, 0.0), known.astype(np.float64))
    )
    return np.where(count > 0.3, np.log(np.maximum(total / np.maximum(count, 1e-9), 1e-5)), np.nan)


# -- vocal tract ------------------------------------------------------------------------------------------------------

TRACT_RATE_HZ = 11_000
TRACT_ORDER = 14
TRACT_BAND_HZ = (250.0, 5000.0)
TRACT_SMOOTHING_HZ = 90.0
TRACT_STEP = 0.005
MAX_TRACT = 0.5


def formants(samples: FloatArray, rate: int) -> float:
    """Shift of the vocal tract's envelope along ln(frequency) from the first third to the last.

    Both thirds' envelopes are read by linear prediction; the shift is the one that leaves the smallest residue once level
    and tilt are fitted, so that a change of brightness tells nothing.
    """
    x = np.asarray(soxr.resample(mono(samples), rate, TRACT_RATE_HZ), dtype=np.float64)
    _, power = spectrogram(np.append(x[:1], x[1:] - 0.9 * x[:-1]), TRACT_RATE_HZ, 0.05)
    if len(power) < 6:
        return float("nan")
    third = len(power) // 3
    heard = sounding(power.sum(axis=1))
    ends = [power[part][heard[part]] for part in (slice(0, third), slice(len(power) - third, None))]
    if min(map(len, ends)) == 0 or power.sum() == 0.0:
        return float("nan")
    place = np.arange(np.log(TRACT_BAND_HZ[0]), np.log(TRACT_BAND_HZ[1]), TRACT_STEP)
    first, last = (lpc_envelope_db(end.mean(axis=0), np.exp(place)) for end in ends)
    shifts = np.arange(-round(MAX_TRACT / TRACT_STEP), round(MAX_TRACT / TRACT_STEP) + 1)
    residue = np.array([_residue(first, last, int(shift)) for shift in shifts])
    best = int(np.clip(np.argmin(residue), 1, len(shifts) - 2))
    left, bottom, right = residue[best - 1 : best + 2]
    bend = left - 2.0 * bottom + right
    between = 0.5 * (left - right) / bend if bend > 0.0 else 0.0
    return float((shifts[best] + np.clip(between, -0.5, 0.5)) * TRACT_STEP)


def lpc_envelope_db(power: FloatArray, frequency_hz: FloatArray) -> FloatArray:
    """Envelope of a power spectrum (0 Hz to half of `TRACT_RATE_HZ`) by linear prediction, its harmonics smeared, in dB."""
    lags = np.arange(TRACT_ORDER + 1)
    correlation = fft.irfft(power)[: TRACT_ORDER + 1] * np.exp(-0.5 * (2.0 * np.pi * TRACT_SMOOTHING_HZ / TRACT_RATE_HZ * lags) ** 2)
    correlation[0] *= 1.0 + 1e-5
    predictor = np.append(1.0, -linalg.solve_toeplitz(correlation[:-1], correlation[1:]))
    response = np.exp(-2j * np.pi * np.outer(frequency_hz, lags) / TRACT_RATE_HZ) @ predictor
    return decibels(1.0 / np.abs(response) ** 2)


def _residue(first: FloatArray, last: FloatArray, shift: int) -> float:
    """What tells two envelopes apart once one is shifted, level and tilt taken out: a share of their variance."""
    n = len(first) - abs(shift)
    place = np.linspace(-1.0, 1.0, n)
    pair = np.stack([last[max(shift, 0) :][:n], first[max(-shift, 0) :][:n]])
    pair = pair - pair.mean(axis=1, keepdims=True)
    pair = pair - np.outer(pair @ place / (place @ place), place)
    return float(np.sum((pair[0] - pair[1]) ** 2) / np.maximum(np.sum(pair**2), 1e-12))


# -- mixtures ---------------------------------------------------------------------------------------------------------


def noise(samples: FloatArray, rate: int) -> FloatArray:
    """Level of the noise over the rest, dB, from the power mean of exponent -1/2 in patches of 0.8 s and 250 Hz.

    That mean follows what is least in a patch, between harmonics or in pauses. Of Gaussian noise, whose powers are distributed
    exponentially, it's 1/pi of the mean (the gamma function at 1/2, to the power of -2).
    """
    x = at_rate(samples, rate)
    _, power = spectrogram(x, RATE_HZ, 0.064)
    n_bins, width = 16, round(0.8 / HOP_S)
    patch = power[:, 3 : 3 + (power.shape[1] - 3) // n_bins * n_bins].reshape(len(power), -1, n_bins) + 1e-9
    least = ndimage.uniform_filter1d((patch**-0.5).mean(axis=2), width, axis=0, mode="nearest") ** -2 * np.pi
    whole = ndimage.uniform_filter1d(patch.mean(axis=2), width, axis=0, mode="nearest")
    floor, total = np.minimum(least, whole).sum(axis=1), whole.sum(axis=1)
    return decibels(floor / np.maximum(total - floor, 0.05 * total))


def reverberation(samples: FloatArray, rate: int) -> FloatArray:
    """How little sound falls: minus the log of the mean square of falls of sixth-octave levels over 40 ms, in windows of 0.8 s.

    After the negative-side variance of Wen, Habets & Naylor (2008). A tail fills up what follows a loud moment, so that bands fall
    less. Only what lies within 15 dB of a band's loudest in half a second counts: further down is noise.
    """
    frequency_hz, power = spectrogram(samples, rate, 0.08)
    band = in_bands(frequency_hz, power, 200.0 * 2.0 ** np.arange(0.0, 5.1, 1.0 / 6.0))
    band = np.maximum(band, band.max(axis=0) * 1e-5 + 1e-12)
    near = band > ndimage.maximum_filter1d(band, round(0.5 / HOP_S), axis=0) * 10.0**-1.5
    lag = round(0.04 / HOP_S)
    fall = np.where(near[:-lag] | near[lag:], np.minimum(decibels(band[lag:]) - decibels(band[:-lag]), 0.0), 0.0)
    falls = ndimage.uniform_filter1d(np.mean(fall**2, axis=1), round(0.8 / HOP_S), mode="nearest")
    slowness: FloatArray = -np.log(np.maximum(falls, 1e-9))
    return slowness


def distortion(samples: FloatArray, rate: int) -> FloatArray:
    """Form of the wave in 20 ms, ln of the squared mean magnitude over the mean square: a bend takes from peaks, not from the rest."""
    x, width, hop = mono(samples), round(0.02 * rate), round(HOP_S * rate)
    magnitude, power = (ndimage.uniform_filter1d(part, width, mode="nearest")[::hop] for part in (np.abs(x), x**2))
    form = np.log(np.maximum(magnitude**2, 1e-12) / np.maximum(power, 1e-12))
    return np.where(sounding(power), form, np.nan)


def clarity(samples: FloatArray, rate: int) -> FloatArray:
    """Octave below which 99.9 % of the power of the differenced sound lies (6 dB per octave make what is high count)."""
    frequency_hz, power = spectrogram(samples, rate, 0.05)
    share = np.cumsum(power * frequency_hz**2, axis=1)
    share = share / np.maximum(share[:, -1:], 1e-12)
    edge = np.log2(frequency_hz[np.maximum(np.argmax(share >= 0.999, axis=1), 1)])
    return np.where(sounding(power.sum(axis=1)), edge, np.nan)


# -- space ------------------------------------------------------------------------------------------------------------


def pan(samples: FloatArray, rate: int) -> FloatArray:
    """Angle of the line about which the points (left, right) lie, from all left (0) to all right (1); nothing on mono."""
    if samples.ndim == 1:
        return np.zeros(0)
    left, right = samples[:, 0], samples[:, 1]
    products = np.stack([left**2, right**2, left * right], axis=1)
    hop = round(HOP_S * rate)
    ll, rr, lr = ndimage.uniform_filter1d(products, 5 * hop, axis=0, mode="nearest")[::hop].T
    angle = 0.5 * np.arctan2(2.0 * lr, ll - rr) / (np.pi / 2.0)
    return np.where(sounding(ll + rr), angle, np.nan)


# -- the table of measures --------------------------------------------------------------------------------------------

Measure = Callable[[FloatArray, int], FloatArray | float]

MEASURES: dict[str, Measure] = {
    "pitch": pitch,
    "loudness": loudness,
    "tempo": tempo,
    "brightness": brightness,
    "vibrato": vibrato,
    "tremolo": tremolo,
    "roughness": roughness,
    "breathiness": breathiness,
    "hoarseness": hoarseness,
    "formants": formants,
    "noise": noise,
    "reverberation": reverberation,
    "distortion": distortion,
    "clarity": clarity,
    "pan": pan,
}
MIN_S = 0.3
RISES = frozenset({"increase", "right"})
"""Answers that mean a rise; the other choice is a fall."""


class Unusable(Exception):
    """A dataset, configuration or row that can't be evaluated; the message is complete for the user."""


def heard_change(dimension: str, samples: FloatArray, rate: int) -> float:
    """By how much a sound rises in a dimension from its beginning to its end, in the measure's unit; `nan` if it can't be told.

    Parameters
    ----------
    dimension
        A key of `MEASURES`.
    samples
        float64, shape (n,) or (n, channels), full scale 1.
    rate
        Samples per second.

    Returns
    -------
    float
        `nan` also for silence and under 0.3 s, which have no first and last third to be told apart.
    """
    if len(samples) < MIN_S * rate or not np.any(samples):
        return float("nan")
    found = MEASURES[dimension](samples, rate)
    return found if isinstance(found, float) else change(found)


def answer(choices: Sequence[str], rise: float) -> str | None:
    """The choice that a change means; None for no change or `nan`: the oracle doesn't guess."""
    if not np.isfinite(rise) or rise == 0.0:
        return None
    return next((choice for choice in choices if (choice in RISES) == (rise > 0.0)), None)


# -- items ------------------------------------------------------------------------------------------------------------

ALL, CONTROLS = "all", "controls"
COLUMNS = ("id", "audio", "choices", "answer", "dimension", "tier", "curve", "source_kind", "source_id")
GROUPS = ("tier", "source_kind", "curve")
BATCH = 1024


@dataclass(frozen=True)
class Answered:
    """One item with the oracle's answer.

    Parameters
    ----------
    id, dimension, tier, curve, source_kind, source_id
        Of the row.
    rise
        What `heard_change` says; None where that is `nan`.
    given, right
        The oracle's answer (None: it has none), and the row's (None on a control).
    """

    id: str
    dimension: str
    tier: str
    curve: str
    source_kind: str
    source_id: str
    rise: float | None
    given: str | None
    right: str | None

    @property
    def hit(self) -> bool:
        """Whether the answer is the row's; no answer is a wrong one."""
        return self.given is not None and self.given == self.right


def answered(row: dict[str, Any]) -> Answered:
    """Answer one row; the sound, the dimension and the choices are all that it's answered from."""
    samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]), dtype="float64")
    rise = heard_change(row["dimension"], samples, rate)
    kept = {name: row[name] for name in COLUMNS if name not in ("audio", "choices", "answer")}
    return Answered(**kept, rise=rise if np.isfinite(rise) else None, given=answer(row["choices"], rise), right=row["answer"])


def configurations(dataset: str) -> list[str]:
    """Names of a dataset's configurations; `dataset` is a folder or a name on the Hub (owner/name).

    Raises
    ------
    Unusable
        There is no such dataset, or it can't be read.
    """
    import datasets

    datasets.disable_progress_bars()
    if not Path(dataset).is_dir() and not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise Unusable(f"no folder {dataset!r} here: build it with `make build`, or name another with --dataset")
    if Path(dataset).is_dir() and re.search(r"\[|::|\$", os.path.realpath(dataset)):
        raise Unusable(f"{dataset!r}: `datasets` opens no folder with [ or :: or $ in its path: rename it, or move it")
    try:
        return list(datasets.get_dataset_config_names(dataset))
    except Exception as error:  # the library raises many kinds, by network and by version
        raise Unusable(f"{dataset!r} can't be read as a dataset: {str(error).splitlines()[0]}") from error


def rows(dataset: str, config: str, split: str) -> Iterator[dict[str, Any]]:
    """Rows of one split of a configuration, sound as bytes.

    Raises
    ------
    Unusable
        No such split, or a column is missing.
    """
    import datasets

    try:
        loaded = datasets.load_dataset(dataset, config, split=split)
    except Exception as error:  # see above
        raise Unusable(f"{dataset!r}, configuration {config!r}, split {split!r}: {str(error).splitlines()[0]}") from error
    missing = [name for name in COLUMNS if name not in loaded.column_names]
    if missing:
        raise Unusable(f"{dataset!r}, configuration {config!r} has no column {', '.join(missing)}")
    yield from loaded.select_columns(list(COLUMNS)).cast_column("audio", datasets.Audio(decode=False))


def answer_all(items: Iterable[dict[str, Any]], workers: int) -> list[Answered]:
    """Answer rows, in their order, by so many processes, some hundred at a time."""
    if workers == 1:
        return [answered(row) for row in items]
    found: list[Answered] = []
    remaining = iter(items)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while batch := list(islice(remaining, BATCH)):
            found += pool.map(answered, batch, chunksize=16)
    return found


# -- scores -----------------------------------------------------------------------------------------------------------

Z_95 = 1.959964


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share among n independent trials."""
    middle = (share + Z_95**2 / (2.0 * n)) / (1.0 + Z_95**2 / n)
    half = Z_95 * np.sqrt(share * (1.0 - share) / n + Z_95**2 / (4.0 * n**2)) / (1.0 + Z_95**2 / n)
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def interval(hits: Sequence[bool], clusters: Sequence[str]) -> tuple[float, float]:
    """95 % interval of a share whose trials come in clusters: clips of one source aren't independent.

    Wilson's interval for as many independent trials as the clusters are worth: n over the design effect, which is the share's
    variance between clusters (ratio estimator) over that of independent trials, at least 1. Two imagined clusters, one all right
    and one all wrong, are added for the design effect: so where all are right, each cluster counts once, and the
    interval doesn't shrink at a first error.
    """
    _, of, sizes = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    right = np.bincount(of, weights=np.asarray(hits, dtype=np.float64))
    size = np.append(sizes, [sizes.mean()] * 2)
    hit = np.append(right, [sizes.mean(), 0.0])
    share = hit.sum() / size.sum()
    effect = float(np.sum((hit - share * size) ** 2) / (size.sum() * share * (1.0 - share)))
    return wilson(float(right.sum() / sizes.sum()), sizes.sum() / max(effect, 1.0))


@dataclass(frozen=True)
class Score:
    """One line of the table.

    Parameters
    ----------
    name
        Dimension, or `overall`; with the group after it.
    clips, silent
        Items, and those without an answer.
    share
        Of right answers; of controls, of rises among those answered.
    low, high
        Its 95 % interval. All three are None where no control was answered.
    """

    name: str
    clips: int
    silent: int
    share: float | None
    low: float | None
    high: float | None


def score(name: str, items: Sequence[Answered], controls: bool = False) -> Score:
    """The line of some items."""
    told = [item for item in items if item.given is not None] if controls else list(items)
    silent = sum(item.given is None for item in items)
    if not told:
        return Score(name, len(items), silent, None, None, None)
    hits = [(item.given in RISES) if controls else item.hit for item in told]
    low, high = interval(hits, [item.source_id for item in told])
    return Score(name, len(items), silent, float(np.mean(hits)), low, high)


def scores(items: Sequence[Answered], by: str | None, controls: bool = False) -> list[Score]:
    """Lines for each dimension in the order that they come, for its groups, and overall."""
    lines = []
    for dimension in dict.fromkeys(item.dimension for item in items):
        mine = [item for item in items if item.dimension == dimension]
        groups = {getattr(item, by): None for item in mine} if by else {}
        lines.append(score(dimension, mine, controls))
        lines += [score(f"  {group}", [item for item in mine if getattr(item, str(by)) == group], controls) for group in groups]
    return [*lines, score("overall", items, controls)]


def table(lines: Sequence[Score], controls: bool = False) -> str:
    """The lines as text."""
    head = f"{'dimension':<18}{'clips':>7}{'no answer':>11}{'rises' if controls else 'right':>9}   95 % interval"
    return "\n".join([head, *map(_line, lines)])


def _line(x: Score) -> str:
    counts = f"{x.name:<18}{x.clips:>7}{x.silent:>11}"
    return counts + ("        -" if x.share is None else f"{x.share:>9.1%}   {x.low:.1%} to {x.high:.1%}")


# -- the command ------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 a fault with a message, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except Unusable as fault:
        print(f"oracle: {fault}", file=sys.stderr)
    except OSError as error:
        print(f"oracle: {error}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oracle", description="Answers a dataset's items from their sound, by measures that made no label."
    )
    parser.add_argument("--dataset", default="vocalgrad", help="folder, or owner/name on the Hub (default: %(default)s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--config", action="append", help="configuration; can be given again (default: each dimension's)")
    what.add_argument("--controls", action="store_true", help="answer the controls, in which nothing moves: the share of rises")
    parser.add_argument("--split", default="test", help="split (default: %(default)s)")
    parser.add_argument("--by", choices=GROUPS, help="a line for each of these within a dimension")
    parser.add_argument("--json", type=Path, help="file to write: the lines and every item's answer")
    parser.add_argument("--workers", type=int, default=None, help="processes (default: as many as this process may use cores)")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    wanted, strange = _wanted(arguments)
    found: list[Answered] = []
    for name in wanted:
        items = list(rows(arguments.dataset, name, arguments.split))
        strange |= {row["dimension"] for row in items} - set(MEASURES)
        found += answer_all((row for row in items if row["dimension"] in MEASURES), max(arguments.workers or joblib.cpu_count(), 1))
    if strange:
        print(f"oracle: not asked, it has no measure of {', '.join(sorted(strange))}", file=sys.stderr)
    if not found:
        raise Unusable("there is no item to answer")
    lines = scores(found, arguments.by, arguments.controls)
    print(table(lines, arguments.controls))
    if arguments.json:
        content = {"dataset": arguments.dataset, "split": arguments.split, "scores": lines, "items": found}
        arguments.json.write_text(json.dumps(content, default=asdict, allow_nan=False, indent=1) + "\n", encoding="utf-8")
    return 0


def _wanted(arguments: argparse.Namespace) -> tuple[list[str], set[str]]:
    """The configurations that are asked for (each dimension's, if none is), and dimensions that are left out for want of a measure."""
    known = configurations(arguments.dataset)
    if not arguments.controls and not arguments.config:
        wanted = [name for name in known if name in MEASURES]
        return wanted, set(known) - {*wanted, ALL, CONTROLS}
    wanted = [CONTROLS] if arguments.controls else arguments.config
    for name in wanted:
        if name == CONTROLS and not arguments.controls:
            raise Unusable("controls have no right answer: ask for their share of rises with --controls")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise Unusable(f"{arguments.dataset!r} has no configuration {name!r}: {hint}")
    return wanted, set()


if __name__ == "__main__":
    raise SystemExit(main())
