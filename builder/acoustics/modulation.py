"""Amplitude modulation put on a sound, and the depth of modulation measured in one: of level (tremolo, roughness) and of F0.

Depth m of amplitude modulation is that of a gain 1 + m sin(2 pi f t), here in dB re full modulation: 20 log10 m. Depth of
frequency modulation is the amplitude of the swing of F0, in cents.

References
----------
Viemeister, N. F. (1979). Temporal modulation transfer functions based upon modulation thresholds. JASA 66(5), 1364-1380
(modulation depth in dB, 20 log m).
Fastl, H. & Zwicker, E. (2007). Psychoacoustics: Facts and Models, 3rd edition. Springer (chapters 10, fluctuation strength,
and 11, roughness: strongest at rates of about 4 Hz and 70 Hz).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import fft as scipy_fft
from scipy import ndimage, signal

from builder.acoustics import meters
from builder.records import BoolArray, Contour, FloatArray, Sound

MIN_DEPTH_DB = -40.0
"""Depths of amplitude modulation under this read as this: 1 % can't be heard, and a sine without any has none."""
LOWEST_HZ = 80.0
WHITENED_DB = 30.0
"""Parts of the spectrum further below the strongest aren't raised any more."""
CONTOUR_HOP_S = 0.01
MIN_VALID = 0.5
"""Share of a window's frames that must have an F0 for its range to be told."""
MIN_FRAMES = 0.3
MAX_ERROR = 2.0
"""A sine is told in a window with gaps where this share of its frames is there, and where the gaps make its standard error at
most so many times that of a window without."""


# -- making -----------------------------------------------------------------------------------------------------------


def amplitude_modulated(sound: Sound, depth_db: FloatArray, rate_hz: float, phase: float, held: float = 0.5) -> Sound:
    """A sound under a sinusoidal gain 1 + m sin(2 pi (f t + phase)), divided by its own mean over a cycle.

    The mean square of the gain is 1 + m^2/2, so the division is by (1 + m^2/2) to the power of `held`.

    Parameters
    ----------
    depth_db
        float64, shape (n_samples,): 20 log10 m, at most 0.
    rate_hz
        Of modulation.
    phase
        In cycles, at the first sample.
    held
        1/2 keeps the mean power of a steady carrier (exactly so over a cycle), 0 its mean amplitude.
    """
    depth = 10.0 ** (depth_db / 20.0)
    time_s = np.arange(len(sound.samples)) / sound.sample_rate_hz
    gain = (1.0 + depth * np.sin(2.0 * np.pi * (rate_hz * time_s + phase))) / (1.0 + depth**2 / 2.0) ** held
    return sound.each(lambda samples: samples * (gain[:, None] if samples.ndim == 2 else gain))


# -- local sines in a row of frames -------------------------------------------------------------------------------------


def _basis(n_frames: int, hop_s: float, rate_hz: float) -> tuple[FloatArray, FloatArray]:
    """Constant, slope, cosine and sine at frames about the middle, shape (n_frames, 4); and a Hann window over them."""
    time_s = (np.arange(n_frames) - (n_frames - 1) / 2.0) * hop_s
    angle = 2.0 * np.pi * rate_hz * time_s
    window: FloatArray = np.hanning(n_frames + 2)[1:-1].astype(np.float64)
    return np.stack([np.ones(n_frames), time_s, np.cos(angle), np.sin(angle)], axis=1), window


@lru_cache(maxsize=512)
def _solver(n_frames: int, hop_s: float, rate_hz: float) -> FloatArray:
    """What a window of frames is multiplied by to get its four coefficients; shape (4, n_frames)."""
    basis, weight = _basis(n_frames, hop_s, rate_hz)
    weighted = basis * weight[:, None]
    solved: FloatArray = np.linalg.solve(basis.T @ weighted, weighted.T).astype(np.float64)
    return solved


def local_sine(frames: FloatArray, hop_s: float, rate_hz: float) -> tuple[FloatArray, FloatArray]:
    """Mean, and amplitude of a sine of known rate, in each window of frames; a straight slope is no part of either.

    Weighted least squares under a Hann window.

    Parameters
    ----------
    frames
        float64, shape (n_windows, n_frames); `nan` where there's no value.
    hop_s
        Between frames.
    rate_hz
        Of the sine; at least 1.5 cycles should lie in a window.

    Returns
    -------
    mean, amplitude
        float64, shape (n_windows,), in the unit of the frames; `nan` in windows whose gaps leave it unsure.
    """
    valid = np.isfinite(frames)
    if valid.all():
        return _mean_and_amplitude(frames @ _solver(frames.shape[1], hop_s, rate_hz).T)
    basis, weight = _basis(frames.shape[1], hop_s, rate_hz)
    product = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), 16)
    whole = np.linalg.inv((weight @ product).reshape(4, 4))
    weighted = valid * weight
    inverse = np.linalg.inv((weighted @ product).reshape(-1, 4, 4) + 1e-6 * np.eye(4))  # an empty window is unsure, not singular
    error = inverse[:, 2, 2] + inverse[:, 3, 3]
    sure = (valid.sum(axis=1) >= MIN_FRAMES * len(weight)) & (error <= MAX_ERROR**2 * (whole[2, 2] + whole[3, 3]))
    right = (weighted * np.where(valid, frames, 0.0)) @ basis
    return _mean_and_amplitude(np.where(sure[:, None], (inverse @ right[:, :, None])[:, :, 0], np.nan))


def _mean_and_amplitude(coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    amplitude: FloatArray = np.hypot(coefficients[:, 2], coefficients[:, 3]).astype(np.float64)
    return coefficients[:, 0], amplitude


def strongest_hz(frames: FloatArray, hop_s: float, rates_hz: FloatArray) -> float:
    """Which of some rates has the largest mean square amplitude over all windows; the first where none has any."""
    power = [np.nan_to_num(local_sine(frames, hop_s, float(rate_hz))[1]) for rate_hz in rates_hz]
    return float(rates_hz[int(np.argmax([np.mean(found**2) for found in power]))])


def _windows(value: FloatArray, hop_s: float, window_s: float) -> tuple[FloatArray, FloatArray]:
    """Windows of a row of frames about each 10 ms, shape (n_windows, n_frames), and their centres, s after the first frame."""
    width = 2 * round(window_s / hop_s / 2.0) + 1
    stride = max(round(CONTOUR_HOP_S / hop_s), 1)
    if len(value) < width:
        return np.zeros((0, width)), np.zeros(0)
    frames = np.lib.stride_tricks.sliding_window_view(value, width)[::stride]
    centre_s: FloatArray = (np.arange(len(frames), dtype=np.float64) * stride + (width - 1) / 2.0) * hop_s
    return frames, centre_s


# -- depth of amplitude modulation --------------------------------------------------------------------------------------


def _powers(sound: Sound, frame_s: float, hop_s: float) -> tuple[FloatArray, FloatArray, float, float]:
    """Flattened and plain power of Hann frames, shape (n_frames,) each; the time of the first frame, and the hop as it is.

    Flattened: each part of the spectrum counts alike (to 30 dB under the strongest), so that the random fluctuation of a
    noise with a steep spectrum is that of its whole width and not of its few strongest hertz.
    """
    width = 2 * round(frame_s * sound.sample_rate_hz / 2.0)
    hop = max(round(hop_s * sound.sample_rate_hz), 1)
    if len(sound.samples) < width:
        return np.zeros(0), np.zeros(0), 0.0, hop / sound.sample_rate_hz
    window = np.hanning(width + 1)[:-1]
    first = max(round(LOWEST_HZ * width / sound.sample_rate_hz), 1)
    power = np.zeros(((len(sound.samples) - width) // hop + 1, width // 2 + 1 - first))
    for channel in sound.channels:
        frames = np.lib.stride_tricks.sliding_window_view(channel, width)[::hop] * window
        power += np.abs(scipy_fft.rfft(frames, axis=1)[:, first:]) ** 2 * (2.0 / (width * np.sum(window**2)))
    spectrum = ndimage.uniform_filter1d(power.mean(axis=0), min(9, power.shape[1]), mode="nearest")
    weight = 1.0 / np.maximum(spectrum, max(spectrum.max(), 1e-15) * 10.0 ** (-WHITENED_DB / 10.0))
    return power @ weight, power.sum(axis=1), width / 2.0 / sound.sample_rate_hz, hop / sound.sample_rate_hz


def _smeared(frame_s: float, rate_hz: float) -> float:
    """What is left of a ripple of power of a rate behind frames under a squared Hann window (its Fourier transform)."""
    at = (np.arange(512) + 0.5) / 512 - 0.5
    weight = np.cos(np.pi * at) ** 4
    return float(weight @ np.cos(2.0 * np.pi * rate_hz * frame_s * at) / weight.sum())


def depth_of_power_swing(swing: FloatArray) -> FloatArray:
    """The m of a gain 1 + m sin whose square swings by so much about its mean: swing = 2 m / (1 + m^2/2), solved for m.

    Parameters
    ----------
    swing
        float64, any shape, at least 0; the largest that there can be is the square root of 2, more counts as that.
    """
    bounded = np.clip(swing, 0.0, np.sqrt(2.0))
    depth: FloatArray = 2.0 * bounded / (2.0 + np.sqrt(np.maximum(4.0 - 2.0 * bounded**2, 0.0)))
    return depth


def amplitude_depth_db(sound: Sound, rates_hz: tuple[float, float], window_s: float, frame_s: float, hop_s: float) -> Contour:
    """Depth of amplitude modulation at the strongest rate of a band, by a local sine in the power of short frames.

    Exact for a steady carrier under a sine. A random carrier's own fluctuation adds to it, and with harmonics whose distance less
    twice the rate falls on the band (70 Hz on F0 of about 210 Hz) the depth ripples by 1 dB.

    Parameters
    ----------
    rates_hz
        Lowest and highest rate that's looked for; one rate is taken for the whole sound.
    window_s
        Hann window of the local sine.
    frame_s, hop_s
        Of the frames of power: short against a cycle, long against a period of the carrier.

    Returns
    -------
    Contour
        20 log10 m at 10 ms steps, at least -40 dB; `nan` in windows more than 20 dB under the loud ones. Empty for a sound
        under `window_s`.
    """
    flattened, plain, first_s, hop_s = _powers(sound, frame_s, hop_s)
    frames, time_s = _windows(flattened, hop_s, window_s)
    if len(frames) == 0:
        return meters.EMPTY
    means = _windows(plain, hop_s, window_s)[0].mean(axis=1)
    heard = meters.audible(10.0 * np.log10(np.maximum(means, 1e-12)))
    scale = np.where(heard, frames.mean(axis=1), np.inf)
    relative = frames / np.maximum(scale, 1e-30)[:, None]
    rate_hz = strongest_hz(relative, hop_s, np.linspace(*rates_hz, 41))
    mean, amplitude = local_sine(relative, hop_s, rate_hz)
    swing = amplitude / np.maximum(mean, 1e-9) / _smeared(frame_s, rate_hz)
    depth_db = 20.0 * np.log10(np.maximum(depth_of_power_swing(swing), 10.0 ** (MIN_DEPTH_DB / 20.0)))
    return Contour(first_s + time_s, np.where(heard, depth_db, np.nan), heard)


# -- the same by Hilbert's envelope, for witnesses ------------------------------------------------------------------------


def hilbert_envelope(sound: Sound, rate_hz: float) -> tuple[FloatArray, float]:
    """Magnitude of the analytic signal of the differenced sound (+6 dB per octave), at a lower rate.

    Parameters
    ----------
    rate_hz
        Of the envelope, about: the sound's rate is divided by a whole number. It's low-passed below its half (FIR, no delay).

    Returns
    -------
    envelope
        float64, shape (n,): root of the summed squares of the channels.
    step_s
        Between its values; the first lies at 0 s.
    """
    power = np.zeros(len(sound.samples))
    for channel in sound.channels:
        edged = np.diff(channel, prepend=channel[:1])
        power += np.abs(signal.hilbert(edged, scipy_fft.next_fast_len(len(edged)))[: len(edged)]) ** 2
    step = max(round(sound.sample_rate_hz / rate_hz), 1)
    return np.asarray(signal.resample_poly(np.sqrt(power), 1, step), dtype=np.float64), step / sound.sample_rate_hz


def _heard(frames: FloatArray, sound: Sound) -> BoolArray:
    """Which windows of an envelope are loud enough: as loud frames are, the differencing undone for 1 kHz."""
    edge_db = 20.0 * np.log10(2.0 * np.sin(np.pi * meters.REFERENCE_HZ / sound.sample_rate_hz))
    return meters.audible(10.0 * np.log10(np.maximum(np.mean(frames**2, axis=1), 1e-15)) - edge_db - 10.0 * np.log10(2.0))


def peak_to_trough(sound: Sound, window_s: float = 0.5) -> Contour:
    """Modulation index of Hilbert's envelope below 20 Hz, from its peaks and troughs: no rate is looked for.

    Returns
    -------
    Contour
        (high - low) / (high + low) at 10 ms steps, high and low being the 95th and 5th percentile in a window; near m for a
        slow sine of depth m. `nan` in windows more than 20 dB under the loud ones; empty for a sound under `window_s`.
    """
    if sound.duration_s < window_s:
        return meters.EMPTY
    envelope, step_s = hilbert_envelope(sound, 40.0)
    time_s = np.arange(0.0, len(envelope) * step_s, CONTOUR_HOP_S)
    frames, centre_s = _windows(np.interp(time_s, np.arange(len(envelope)) * step_s, envelope), CONTOUR_HOP_S, window_s)
    if len(frames) == 0:
        return meters.EMPTY
    heard = _heard(frames, sound)
    low, high = np.maximum(np.percentile(frames, [5.0, 95.0], axis=1), 0.0)
    return Contour(centre_s, np.where(heard, (high - low) / np.maximum(high + low, 1e-30), np.nan), heard)


def envelope_ripple(sound: Sound, low_hz: float = 45.0, high_hz: float = 105.0, window_s: float = 0.25) -> Contour:
    """Modulation index of Hilbert's envelope in a band of rates: its RMS behind a band-pass, no rate is looked for.

    Returns
    -------
    Contour
        Root 2 times RMS over mean at 10 ms steps, m for a sine of depth m in mid-band; a noise adds its own ripple. `nan` in
        windows more than 20 dB under the loud ones; empty for a sound under `window_s`.
    """
    if sound.duration_s < window_s:
        return meters.EMPTY
    envelope, step_s = hilbert_envelope(sound, 500.0)
    band = signal.butter(2, [low_hz, high_hz], "bandpass", fs=1.0 / step_s, output="sos")
    ripple, _ = _windows(signal.sosfiltfilt(band, envelope), step_s, window_s)
    frames, centre_s = _windows(envelope, step_s, window_s)
    if len(frames) == 0:
        return meters.EMPTY
    heard = _heard(frames, sound)
    index = np.sqrt(2.0 * np.mean(ripple**2, axis=1)) / np.maximum(frames.mean(axis=1), 1e-30)
    return Contour(centre_s, np.where(heard, index, np.nan), heard)


# -- depth of frequency modulation ----------------------------------------------------------------------------------------


def swing_of_f0(f0_cents: Contour, rates_hz: tuple[float, float], window_s: float) -> Contour:
    """Amplitude of the strongest sine in an F0 contour within a band of rates; straight intonation is no part of it.

    Parameters
    ----------
    f0_cents
        At equal steps, `nan` where there's no F0.
    rates_hz
        Lowest and highest rate that's looked for; one rate is taken for the whole sound.
    window_s
        Hann window of the local sine.

    Returns
    -------
    Contour
        Cents at the contour's steps; `nan` where gaps in a window leave it unsure, and where its middle has no F0. Empty for a
        contour under `window_s`.
    """
    if len(f0_cents.value) < 3:
        return meters.EMPTY
    hop_s = float(np.median(np.diff(f0_cents.time_s)))
    width = 2 * round(window_s / hop_s / 2.0) + 1
    if len(f0_cents.value) < width:
        return meters.EMPTY
    frames = np.lib.stride_tricks.sliding_window_view(f0_cents.value, width)
    centre = slice(width // 2, width // 2 + len(frames))
    rate_hz = strongest_hz(frames, hop_s, np.linspace(*rates_hz, 21))
    _, amplitude = local_sine(frames, hop_s, rate_hz)
    counted = None if f0_cents.counted is None else f0_cents.counted[centre]
    return Contour(f0_cents.time_s[centre], np.where(f0_cents.valid[centre], amplitude, np.nan), counted)


def range_of_f0(f0_cents: Contour, window_s: float = 0.4) -> Contour:
    """Half the range of F0 (5th to 95th percentile) in windows: no rate is looked for, and a glide counts too.

    Returns
    -------
    Contour
        Cents at the contour's steps; `nan` where under half of a window has F0. Empty for a contour under `window_s`.
    """
    if len(f0_cents.value) < 3:
        return meters.EMPTY
    width = 2 * round(window_s / float(np.median(np.diff(f0_cents.time_s))) / 2.0) + 1
    if len(f0_cents.value) < width:
        return meters.EMPTY
    frames = np.lib.stride_tricks.sliding_window_view(f0_cents.value, width)
    enough = np.isfinite(frames).mean(axis=1) >= MIN_VALID
    half = np.full(len(frames), np.nan)
    low, high = np.nanpercentile(frames[enough], [5.0, 95.0], axis=1) if enough.any() else (np.zeros(0), np.zeros(0))
    half[enough] = (high - low) / 2.0
    return Contour(f0_cents.time_s[width // 2 : width // 2 + len(frames)], half)
