"""How the original study makes its nine categories, from its published description: what our speed is compared with.

Nothing of its code is copied. From the description: a clip is cut into chunks of 50 ms, each chunk is processed apart with the value
that the sweep has there, and the results are joined; pitch and speed by librosa's phase vocoder (windows of 512 samples, hop 128), clarity
by a low-pass in the short-time spectrum, echo by a reverberator after Schroeder, vibration by a tremolo, noise added, volume by a
gain for each chunk, distortion by holding samples as if at a lower rate, roughness by fewer bits. Nothing is measured.

Assumed, where the description leaves it open: the ranges below; a linear course; the tremolo runs through over chunks; the low-pass has
the same windows as the phase vocoder, and a mask of one or zero; four combs and two all-passes with Schroeder's usual delays; noise is
Gaussian and scaled to each chunk. None of it is made slow on purpose: what can be done for all samples of a chunk at once is.

References
----------
Schroeder, M. R. (1962). Natural sounding artificial reverberation. Journal of the Audio Engineering Society 10(3), 219-223.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import librosa
import numpy as np

from builder.records import FloatArray

CHUNK_S = 0.05
N_FFT, HOP = 512, 128
TREMOLO_HZ = 5.0
COMBS_S = ((0.0297, 0.805), (0.0371, 0.827), (0.0411, 0.783), (0.0437, 0.764))
ALL_PASSES_S = ((0.005, 0.7), (0.0017, 0.7))
"""Delay in seconds and gain of each."""


@dataclass(frozen=True)
class Chunk:
    """A part of a clip: its samples, their rate, and when it begins."""

    samples: FloatArray
    sample_rate_hz: int
    start_s: float


def _float64(samples: object) -> FloatArray:
    return np.asarray(samples, dtype=np.float64)


def pitch(chunk: Chunk, semitones: float) -> FloatArray:
    """Shifted by a phase vocoder and resampling."""
    shifted = librosa.effects.pitch_shift(chunk.samples, sr=chunk.sample_rate_hz, n_steps=semitones, n_fft=N_FFT, hop_length=HOP)
    return _float64(shifted)


def speed(chunk: Chunk, rate: float) -> FloatArray:
    """Stretched by a phase vocoder; shorter where the rate is above 1."""
    return _float64(librosa.effects.time_stretch(chunk.samples, rate=rate, n_fft=N_FFT, hop_length=HOP))


def volume(chunk: Chunk, gain_db: float) -> FloatArray:
    """One gain, clipped at full scale."""
    return _float64(np.clip(chunk.samples * 10.0 ** (gain_db / 20.0), -1.0, 1.0))


def clarity(chunk: Chunk, cutoff_hz: float) -> FloatArray:
    """Nothing of the spectrum above a cutoff."""
    spectrum = librosa.stft(chunk.samples, n_fft=N_FFT, hop_length=HOP)
    spectrum[librosa.fft_frequencies(sr=chunk.sample_rate_hz, n_fft=N_FFT) > cutoff_hz] = 0.0
    return _float64(librosa.istft(spectrum, hop_length=HOP, n_fft=N_FFT, length=len(chunk.samples)))


def distortion(chunk: Chunk, held_rate_hz: float) -> FloatArray:
    """Samples held, as if at a lower rate; unchanged where that isn't lower."""
    every = max(chunk.sample_rate_hz / held_rate_hz, 1.0)
    index = (np.floor(np.arange(len(chunk.samples)) / every) * every).astype(int)
    return _float64(chunk.samples[index])


def roughness(chunk: Chunk, bits: float) -> FloatArray:
    """Rounded to fewer steps."""
    steps = 2.0 ** (bits - 1.0)
    return _float64(np.round(chunk.samples * steps) / steps)


def noise(chunk: Chunk, noise_db: float) -> FloatArray:
    """Gaussian noise at a level over the chunk's own."""
    rng = np.random.default_rng(round(1000.0 * chunk.start_s))
    level = np.sqrt(np.mean(chunk.samples**2)) * 10.0 ** (noise_db / 20.0)
    return _float64(chunk.samples + level * rng.standard_normal(len(chunk.samples)))


def tremolo(chunk: Chunk, depth: float) -> FloatArray:
    """A gain that swings between 1 and 1 less the depth."""
    time_s = chunk.start_s + np.arange(len(chunk.samples)) / chunk.sample_rate_hz
    return _float64(chunk.samples * (1.0 - depth * (0.5 + 0.5 * np.sin(2.0 * np.pi * TREMOLO_HZ * time_s))))


def echo(chunk: Chunk, wet: float) -> FloatArray:
    """Mixed with what four combs side by side and two all-passes behind them make of it; nothing rings on into the next chunk."""
    delays = [(round(delay_s * chunk.sample_rate_hz), gain) for delay_s, gain in COMBS_S]
    wet_samples = np.mean([_comb(chunk.samples, delay, gain) for delay, gain in delays], axis=0)
    for delay_s, gain in ALL_PASSES_S:
        delay = round(delay_s * chunk.sample_rate_hz)
        fed_back = _comb(wet_samples, delay, gain)
        wet_samples = -gain * fed_back
        wet_samples[delay:] += fed_back[:-delay]
    return _float64((1.0 - wet) * chunk.samples + wet * wet_samples)


def _comb(samples: FloatArray, delay: int, gain: float) -> FloatArray:
    """y[n] = x[n] + gain y[n - delay], a delay's length at a time."""
    made = samples.copy()
    for start in range(delay, len(made), delay):
        part = made[start : start + delay]
        part += gain * made[start - delay : start - delay + len(part)]
    return made


@dataclass(frozen=True)
class Category:
    """One category: what is done to a chunk, and the value that it's done with at the little and at the much end."""

    change: Callable[[Chunk, float], FloatArray]
    little: float
    much: float


CATEGORIES: dict[str, Category] = {
    "voice_pitch": Category(pitch, -4.0, 4.0),
    "speaking_speed": Category(speed, 0.75, 1.33),
    "volume": Category(volume, -12.0, 0.0),
    "voice_clarity": Category(clarity, 1000.0, 7000.0),
    "audio_distortion": Category(distortion, 16000.0, 2000.0),
    "audio_roughness": Category(roughness, 12.0, 5.0),
    "background_noise": Category(noise, -30.0, 0.0),
    "voice_vibration": Category(tremolo, 0.0, 0.9),
    "echo": Category(echo, 0.0, 0.8),
}
"""By the study's names."""


def made(category: str, samples: FloatArray, sample_rate_hz: int, *, rising: bool) -> FloatArray:
    """A clip of a category.

    Parameters
    ----------
    category
        Of `CATEGORIES`.
    samples
        float64, shape (n,), full scale 1.
    rising
        From little to much, or back.

    Returns
    -------
    ndarray
        float64; as long as `samples` but for speaking_speed.
    """
    what = CATEGORIES[category]
    width = round(CHUNK_S * sample_rate_hz)
    starts = range(0, len(samples), width)
    ends = (what.little, what.much) if rising else (what.much, what.little)
    values = np.linspace(*ends, len(starts))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "n_fft=")  # the last chunk may be shorter than a window
        parts = [
            what.change(Chunk(samples[start : start + width], sample_rate_hz, start / sample_rate_hz), float(value))
            for start, value in zip(starts, values, strict=True)
        ]
    return np.concatenate(parts)
