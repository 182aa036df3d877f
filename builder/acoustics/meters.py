"""Meters: samples to contours, on the sound alone. Of stereo, powers are summed over channels; F0 and events are the mean's.

Every meter returns an empty contour for a sound that's shorter than its window, and `nan` frames where the property
doesn't exist. Nothing here raises for a sound that is silent or short: "not measurable" is data.

Sound pressure: a clip at -28 LUFS is taken to play at 65 dB SPL, about the level of conversation, so a mean square of 1 lies
at 93 dB SPL. This only matters for meters in sone, phon and acum.

References
----------
ITU-R BS.1770-4 (2015). Algorithms to measure audio programme loudness and true-peak audio level.
ISO 532-1:2017. Acoustics: Methods for calculating loudness, Part 1: Zwicker method.
DIN 45692:2009. Measurement technique for the simulation of the auditory sensation of sharpness.
IEC 61260-1:2014. Electroacoustics: Octave-band and fractional-octave-band filters (band mid-frequencies).
de Jong, N. H. & Wempe, T. (2009). Praat script to detect syllable nuclei and measure speech rate automatically.
Behavior Research Methods 41(2), 385-390.
Grosche, P. & Mueller, M. (2011). Extracting predominant local pulse information from music recordings.
IEEE Transactions on Audio, Speech, and Language Processing 19(6), 1688-1701 (local periodicity of an onset envelope).
"""

from __future__ import annotations

from functools import lru_cache, reduce

import numpy as np
import pyloudnorm
from scipy import fft as scipy_fft
from scipy import ndimage, signal

from builder.acoustics import praat, zwicker
from builder.records import BoolArray, Contour, FloatArray, Sound

MOMENTARY_WINDOW_S = 0.4
MOMENTARY_HOP_S = 0.1
SPECTRUM_WINDOW_S = 0.064
SPECTRUM_HOP_S = 0.01
ENVELOPE_HOP_S = 0.005
MIN_EVENTS = 5
MIN_ENVELOPE_DEPTH_DB = 1.5
"""Standard deviation of the level envelope under which there is no rhythm to follow: steady noise has about 0.7 dB."""
AUDIBLE_FROM_HZ = 50.0
"""Below is offset and rumble: no part of the level that decides whether a frame is heard."""
TILT_DEPTH_DB = 60.0
"""Bands further below a frame's strongest count as this far below: between harmonics a 16-bit floor is no part of timbre."""
FULL_SCALE_DB_SPL = 93.0
FLOOR_DB = -120.0
REFERENCE_HZ = 1000.0

EMPTY = Contour(np.zeros(0), np.zeros(0))


def _decibels(power: FloatArray) -> FloatArray:
    level: FloatArray = 10.0 * np.log10(np.maximum(power, 10.0 ** (FLOOR_DB / 10.0)))
    return level


# -- loudness -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _k_filters(sample_rate_hz: int) -> tuple[pyloudnorm.IIRfilter, ...]:
    """BS.1770's two stages with the constants that pyloudnorm uses for them at any rate."""
    return (
        pyloudnorm.IIRfilter(4.0, 1.0 / np.sqrt(2.0), 1500.0, sample_rate_hz, "high_shelf"),
        pyloudnorm.IIRfilter(0.0, 0.5, 38.0, sample_rate_hz, "high_pass"),
    )


def k_weighted(sound: Sound) -> FloatArray:
    """The samples behind BS.1770's K-filter, channel by channel; float64, shape (n_channels, n)."""
    samples = np.array(sound.channels)
    for stage in _k_filters(sound.sample_rate_hz):
        samples = stage.apply_filter(samples)
    return samples


def momentary_loudness_lufs(sound: Sound) -> Contour:
    """BS.1770 momentary loudness: mean square of the K-weighted samples in 400 ms windows each 100 ms, summed over channels.

    Returns
    -------
    Contour
        LUFS; `nan` in windows under BS.1770's absolute gate of -70 LUFS, and in pauses: more than 20 LU under the loudest
        window within a second. Empty for a sound under 400 ms.
    """
    return sound.once("momentary_loudness_lufs", _momentary_loudness_lufs)


def _momentary_loudness_lufs(sound: Sound) -> Contour:
    return momentary_loudness_of(np.sum(k_weighted(sound) ** 2, axis=0), sound.sample_rate_hz)


def momentary_loudness_of(k_weighted_power: FloatArray, sample_rate_hz: int) -> Contour:
    """Momentary loudness of samples that are K-weighted already.

    Parameters
    ----------
    k_weighted_power
        float64, shape (n,): squares of the K-weighted samples, summed over channels.
    sample_rate_hz
        Of the samples.

    Returns
    -------
    Contour
        As `momentary_loudness_lufs`.
    """
    width = round(MOMENTARY_WINDOW_S * sample_rate_hz)
    hop = round(MOMENTARY_HOP_S * sample_rate_hz)
    if len(k_weighted_power) < width:
        return EMPTY
    energy = np.concatenate([[0.0], np.cumsum(k_weighted_power)])
    start = np.arange(0, len(k_weighted_power) - width + 1, hop)
    loudness = -0.691 + _decibels((energy[start + width] - energy[start]) / width)
    loud = ndimage.maximum_filter1d(loudness, 2 * round(1.0 / MOMENTARY_HOP_S) + 1, mode="nearest")
    heard = (loudness >= -70.0) & (loudness >= loud - 20.0)
    return Contour((start + width / 2) / sample_rate_hz, np.where(heard, loudness, np.nan))


# -- spectrum -------------------------------------------------------------------------------------------------------

THIRD_OCTAVE_HZ: FloatArray = REFERENCE_HZ * 10.0 ** (np.arange(-16, 12) / 10.0)
"""Exact base-ten mid-frequencies of the 28 third-octave bands of ISO 532-1, 25 Hz to 12.5 kHz."""


@lru_cache(maxsize=8)
def _third_octave_weights(n_bins: int, sample_rate_hz: int) -> FloatArray:
    """Share of each spectral bin's power that falls in each band; shape (28, n_bins)."""
    width = sample_rate_hz / 2.0 / (n_bins - 1)
    centre = np.arange(n_bins) * width
    low = THIRD_OCTAVE_HZ[:, None] * 10.0**-0.05
    high = THIRD_OCTAVE_HZ[:, None] * 10.0**0.05
    overlap = np.minimum(high, centre + width / 2.0) - np.maximum(low, centre - width / 2.0)
    share: FloatArray = np.clip(overlap / width, 0.0, 1.0)
    return share


def spectrum_frames(sample_rate_hz: int, hop_s: float = SPECTRUM_HOP_S) -> tuple[int, int]:
    """Width and hop of the spectrogram's windows, in samples."""
    return round(SPECTRUM_WINDOW_S * sample_rate_hz), round(hop_s * sample_rate_hz)


def frame_centres_s(n_frames: int, sample_rate_hz: int, hop_s: float = SPECTRUM_HOP_S) -> FloatArray:
    """Centres of the spectrogram's windows; float64, shape (n_frames,)."""
    width, hop = spectrum_frames(sample_rate_hz, hop_s)
    centre_s: FloatArray = (np.arange(n_frames) * hop + width / 2) / sample_rate_hz
    return centre_s


def spectrogram(sound: Sound) -> tuple[FloatArray, FloatArray]:
    """Power spectrum in Hann windows of 64 ms each 10 ms, summed over channels.

    Returns
    -------
    time_s
        float64, shape (n_frames,): window centres; windows lie wholly inside the sound.
    power
        float64, shape (n_bins, n_frames): mean square per bin, so that a full-scale sine sums to 1/2.
    """
    return sound.once("spectrogram", _spectrogram)


def _spectrogram(sound: Sound, hop_s: float = SPECTRUM_HOP_S) -> tuple[FloatArray, FloatArray]:
    width, hop = spectrum_frames(sound.sample_rate_hz, hop_s)
    if len(sound.samples) < width:
        return np.zeros(0), np.zeros((width // 2 + 1, 0))
    window = np.hanning(width + 1)[:-1]
    window = window * np.sqrt(2.0 / (width * np.sum(window**2)))
    frames = (np.lib.stride_tricks.sliding_window_view(channel, width)[::hop] for channel in sound.channels)
    spectra = (scipy_fft.rfft(frame * window, axis=1) for frame in frames)
    power: FloatArray = reduce(np.add, (found.real**2 + found.imag**2 for found in spectra))
    return frame_centres_s(len(power), sound.sample_rate_hz, hop_s), power.T


def third_octave_levels_db(sound: Sound) -> tuple[FloatArray, FloatArray]:
    """Third-octave band levels over time.

    Returns
    -------
    time_s
        float64, shape (n_frames,).
    level_db
        float64, shape (28, n_frames): dB re full-scale RMS, 25 Hz to 12.5 kHz, no lower than -120.
    """
    return sound.once("third_octave_levels_db", _third_octave_levels_db)


def _third_octave_levels_db(sound: Sound) -> tuple[FloatArray, FloatArray]:
    time_s, power = spectrogram(sound)
    return time_s, _third_octaves_db(power, sound.sample_rate_hz)


def _third_octaves_db(power: FloatArray, sample_rate_hz: int) -> FloatArray:
    return _decibels(_third_octave_weights(power.shape[0], sample_rate_hz) @ power)


def frame_level_db(sound: Sound) -> Contour:
    """Level of each spectral frame above 50 Hz, dB re full-scale RMS."""
    time_s, power = spectrogram(sound)
    return Contour(time_s, _level_db(power, sound.sample_rate_hz))


def _level_db(power: FloatArray, sample_rate_hz: int) -> FloatArray:
    first = int(np.ceil(AUDIBLE_FROM_HZ / (sample_rate_hz / 2.0) * (power.shape[0] - 1)))
    return _decibels(power[first:].sum(axis=0))


def audible(level_db: FloatArray, below_db: float = 20.0) -> BoolArray:
    """Which frames count: not far under the loud frames around them.

    The loud frames are the highest within half a second on either side, so that a sweep of loudness doesn't mask its own
    quiet end; frames 45 dB under the loudest of all, or under -75 dB, never count.

    Parameters
    ----------
    level_db
        float64, shape (n_frames,), at the hop of the spectrogram.
    below_db
        How far under.

    Returns
    -------
    ndarray
        bool, shape (n_frames,).
    """
    if level_db.size == 0:
        return np.zeros(0, dtype=np.bool_)
    loud = ndimage.maximum_filter1d(level_db, 2 * round(0.5 / SPECTRUM_HOP_S) + 1, mode="nearest")
    heard: BoolArray = (level_db >= loud - below_db) & (level_db > max(level_db.max() - 45.0, -75.0))
    return heard


def spectral_tilt_db_per_octave(sound: Sound, low_hz: float = 200.0, high_hz: float = 5500.0) -> Contour:
    """Slope of the third-octave band levels over log2 frequency, least squares.

    Parameters
    ----------
    low_hz, high_hz
        Band mid-frequencies that count.

    Returns
    -------
    Contour
        dB per octave at 10 ms steps; `nan` in frames more than 20 dB under the loud ones.
    """
    time_s, level_db = third_octave_levels_db(sound)
    used = (low_hz <= THIRD_OCTAVE_HZ) & (high_hz >= THIRD_OCTAVE_HZ)
    octave = np.log2(THIRD_OCTAVE_HZ[used] / REFERENCE_HZ)
    octave = octave - octave.mean()
    level_db = np.maximum(level_db, level_db.max(axis=0, initial=FLOOR_DB) - TILT_DEPTH_DB)
    slope = octave @ level_db[used] / np.sum(octave**2)
    heard = audible(frame_level_db(sound).value)
    return Contour(time_s, np.where(heard, slope, np.nan))


# -- ISO 532-1 and DIN 45692 ------------------------------------------------------------------------------------------


def _each_20_ms(sound: Sound) -> tuple[FloatArray, FloatArray]:
    """Every second frame of the spectrogram; only these are computed where the rest isn't known yet.

    Both ways they lie alike in memory: sums over them are then the same to the last bit.
    """
    if sound.knows("spectrogram"):
        time_s, power = spectrogram(sound)
        return time_s[::2], np.ascontiguousarray(power.T[::2]).T
    return sound.once("spectrogram each 20 ms", lambda mine: _spectrogram(mine, 2.0 * SPECTRUM_HOP_S))


def _zwicker(sound: Sound) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Time, loudness (sone) and specific loudness (sone per Bark, shape (n_frames, 240)) each 20 ms, each frame as a stationary sound."""
    time_s, power = _each_20_ms(sound)
    level_db = _third_octaves_db(power, sound.sample_rate_hz)
    return time_s, *zwicker.loudness(np.maximum(level_db.T + FULL_SCALE_DB_SPL, -60.0))


def loudness_level_phon(sound: Sound) -> Contour:
    """ISO 532-1 loudness level of the mean loudness in 400 ms windows each 100 ms, as momentary loudness is windowed.

    By the method for stationary sounds on each frame's band levels. Spectral bands lack the skirts of the standard's filters,
    so a pure tone reads up to 2.5 phon low; changes of level are right to 0.7 phon in 10.

    Returns
    -------
    Contour
        Phon; `nan` under 0.003 sone (inaudible) and in windows under -70 dB re full-scale RMS, BS.1770's absolute gate. Empty
        for a sound under 400 ms.
    """
    time_s, sone, _ = sound.once("zwicker", _zwicker)
    width = round(MOMENTARY_WINDOW_S / (2.0 * SPECTRUM_HOP_S))
    hop = round(MOMENTARY_HOP_S / (2.0 * SPECTRUM_HOP_S))
    if len(sone) < width:
        return EMPTY
    start = np.arange(0, len(sone) - width + 1, hop)
    total = np.concatenate([[0.0], np.cumsum(sone)])
    mean = (total[start + width] - total[start]) / width
    loud = 40.0 + 10.0 * np.log2(np.maximum(mean, 1.0))
    phon = np.where(mean >= 1.0, loud, 40.0 * (np.maximum(mean, 0.0) + 0.0005) ** 0.35)
    frame_db = _level_db(_each_20_ms(sound)[1], sound.sample_rate_hz)
    power = np.concatenate([[0.0], np.cumsum(10.0 ** (frame_db / 10.0))])
    level_db = _decibels((power[start + width] - power[start]) / width)
    heard = (mean > 0.003) & (level_db >= -70.0)
    return Contour((time_s[start] + time_s[start + width - 1]) / 2.0, np.where(heard, phon, np.nan))


def sharpness_acum(sound: Sound) -> Contour:
    """DIN 45692 sharpness, frame by frame.

    Returns
    -------
    Contour
        Acum at 20 ms steps; `nan` in frames more than 20 dB under the loud ones.
    """
    time_s, sone, specific = sound.once("zwicker", _zwicker)
    heard = audible(frame_level_db(sound).value)[::2]
    value = np.full(len(time_s), np.nan)
    told = heard & (sone > 0.0)
    value[told] = zwicker.sharpness(specific[told])
    return Contour(time_s, value, heard)


# -- F0 ---------------------------------------------------------------------------------------------------------------


def f0_semitones(sound: Sound) -> Contour:
    """F0 by Praat's autocorrelation, in semitones re 100 Hz; `nan` where unvoiced or inaudible."""
    return sound.once("f0_semitones", _f0_semitones)


def _f0_semitones(sound: Sound) -> Contour:
    contour = praat.f0_autocorrelation_hz(sound)
    level = frame_level_db(sound)
    if level.value.size == 0 or contour.value.size == 0:
        return EMPTY
    heard = audible(level.value)[np.clip(np.searchsorted(level.time_s, contour.time_s), 0, level.value.size - 1)]
    semitones = 12.0 * np.log2(contour.value / 100.0)
    return Contour(contour.time_s, np.where(heard, semitones, np.nan), heard)


# -- events -----------------------------------------------------------------------------------------------------------


def envelope_db(sound: Sound) -> Contour:
    """Level envelope for events: squared samples above 100 Hz under a 20 ms Gaussian, each 5 ms, dB re full scale."""
    return sound.once("envelope_db", _envelope_db)


def _envelope_db(sound: Sound) -> Contour:
    rate = sound.sample_rate_hz
    if len(sound.samples) < round(0.1 * rate):
        return EMPTY
    high_passed = signal.sosfiltfilt(signal.butter(2, 100.0, "highpass", fs=rate, output="sos"), sound.mono)
    fine = max(round(0.001 * rate), 1)
    power = (high_passed[: len(high_passed) // fine * fine] ** 2).reshape(-1, fine).mean(axis=1)
    per_hop = round(ENVELOPE_HOP_S * rate / fine)
    smooth = ndimage.gaussian_filter1d(power, 0.01 * rate / fine, mode="constant", truncate=3.0)[::per_hop]
    return Contour((np.arange(len(smooth)) * per_hop + 0.5) * fine / rate, _decibels(smooth))


def event_times_s(sound: Sound, dip_db: float = 3.0) -> FloatArray:
    """Times of events: peaks of the level envelope that stand `dip_db` above the dips on both sides.

    After de Jong & Wempe (2009), who look for syllable nuclei; here with a dip on both sides, a local threshold and no voicing
    check, so that pulses count too: a nucleus is a peak within 20 dB of the loudest within half a second, with a dip of at
    least `dip_db` before and after it. Its time is the centre of the energy within 3 dB of the peak, which holds still where
    a flat top would make the maximum jump. The envelope's slow course (a parabola) is taken out first, so that a drift of
    level moves no event.

    Returns
    -------
    ndarray
        float64, shape (n_events,), ascending; empty if there are none.
    """
    envelope = envelope_db(sound)
    if envelope.value.size == 0 or envelope.value.max() < -75.0:
        return np.zeros(0)
    level = envelope.value - _slow_course(envelope)
    loud = ndimage.maximum_filter1d(level, 2 * round(0.5 / ENVELOPE_HOP_S) + 1, mode="nearest")
    padded = np.concatenate([[FLOOR_DB], level, [FLOOR_DB]])
    threshold = np.concatenate([[0.0], loud - 20.0, [0.0]])
    peaks, _ = signal.find_peaks(padded, height=threshold, prominence=dip_db, distance=round(0.06 / ENVELOPE_HOP_S))
    times = []
    for peak in peaks - 1:
        low, high = peak, peak
        while low > 0 and level[low - 1] > level[peak] - 3.0:
            low -= 1
        while high < len(level) - 1 and level[high + 1] > level[peak] - 3.0:
            high += 1
        weight = 10.0 ** (level[low : high + 1] / 10.0)
        times.append(float(np.sum(weight * envelope.time_s[low : high + 1]) / np.sum(weight)))
    return np.array(times)


def _slow_course(envelope: Contour) -> FloatArray:
    """Parabola through the frames within 20 dB of the loudest within half a second, dB at each frame."""
    loud = ndimage.maximum_filter1d(envelope.value, 2 * round(0.5 / ENVELOPE_HOP_S) + 1, mode="nearest")
    heard = envelope.value >= loud - 20.0
    course: FloatArray = np.polyval(np.polyfit(envelope.time_s[heard], envelope.value[heard], 2), envelope.time_s).astype(np.float64)
    return course


def event_rate_log(sound: Sound) -> Contour:
    """Natural logarithm of the event rate (1/s), one value per interval between neighbouring events.

    Returns
    -------
    Contour
        ln(events per second) at the middle of each interval; empty with fewer than five events: no row, no rate.
    """
    times = sound.once("event_times_s", event_times_s)
    if len(times) < MIN_EVENTS:
        return EMPTY
    value: FloatArray = -np.log(np.diff(times))
    return Contour((times[1:] + times[:-1]) / 2.0, value)


def periodicity_rate_log(sound: Sound, window_s: float = 1.2, low_hz: float = 1.5, high_hz: float = 16.0) -> Contour:
    """Local rate of the level envelope by its short-time autocorrelation: no events are picked.

    Returns
    -------
    Contour
        ln(cycles per second) each 50 ms; `nan` where the envelope has no period (autocorrelation under 0.3) or hardly moves.
        Empty for a sound under `window_s`.
    """
    envelope = envelope_db(sound)
    if envelope.value.size * ENVELOPE_HOP_S < window_s:
        return EMPTY
    hop_s = float(envelope.time_s[1] - envelope.time_s[0])  # not quite 5 ms at rates that 1 kHz doesn't divide
    width = round(window_s / hop_s)
    level = envelope.value - _slow_course(envelope)
    level = np.maximum(level, np.percentile(level, 95) - 30.0)
    starts = np.arange(0, len(level) - width + 1, round(0.05 / hop_s))
    lags = np.arange(round(1.0 / high_hz / hop_s), round(1.0 / low_hz / hop_s) + 1)
    value = np.full(len(starts), np.nan)
    for i, start in enumerate(starts):
        value[i] = _log_rate_of(level[start : start + width], lags) - np.log(hop_s)
    return Contour((starts.astype(np.float64) + width / 2) * hop_s, value)


def _log_rate_of(level: FloatArray, lags: np.ndarray) -> float:
    """ln of the rate in cycles per frame at the first clear peak of the normalised autocorrelation; nan without one."""
    if np.std(level) < MIN_ENVELOPE_DEPTH_DB:
        return float("nan")
    centred = level - level.mean()
    n = len(centred)
    energy = np.concatenate([[0.0], np.cumsum(centred**2)])
    product = np.correlate(centred, centred, "full")[n - 1 :][lags]
    score = product / np.sqrt(np.maximum(energy[n - lags] * (energy[n] - energy[lags]), 1e-12))
    peaks = np.flatnonzero((score[1:-1] >= score[:-2]) & (score[1:-1] > score[2:])) + 1
    if peaks.size == 0 or score[peaks].max() < 0.3:
        return float("nan")
    best = int(peaks[np.argmax(score[peaks] >= 0.85 * score[peaks].max())])
    left, middle, right = score[best - 1 : best + 2]
    bend = left - 2.0 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(-np.log(lags[best] + shift))
