"""A sustained vowel out of a real syllable: some neighbouring periods of the voice, laid again and again.

Periods are cut out at Praat's pitch marks under windows of two periods and overlap-added at marks of our own, as in
pitch-synchronous overlap-add. They're given one spectral envelope and are laid in a random order, none twice in a row: what
differs from period to period is heard as the voice's own grain, not as steps of timbre or a pattern that repeats.

References
----------
Moulines, E. & Charpentier, F. (1990). Pitch-synchronous waveform processing techniques for text-to-speech synthesis
using diphones. Speech Communication 9, 453-467.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray
from scipy import fft as scipy_fft
from scipy import ndimage, signal

from builder.acoustics import praat, voice
from builder.errors import Refused
from builder.records import FloatArray, Reason, Sound
from builder.words import counted

OVERSAMPLING = 8
"""Marks lie on a grid this many times finer than the samples: at 16 kHz a period of 5 ms is placed to 0.16 %."""
CORE_S = 0.08
"""Length of the steadiest stretch of a syllable that periods are taken from."""
MIN_PERIODS = 5
EVEN_WIDTH_PERIODS = 1.0
"""Standard deviation, in harmonics, of the smoothing by which the envelopes of periods are compared."""
EVEN_GAIN = (0.1, 10.0)
"""Limits of the gain by which a period's envelope is brought to the mean one."""
OWN_SHARE = 0.3
"""Share of each period's own difference from the mean period that is kept: harmonicity is then that of the voice it was cut
from, where neighbours followed each other."""
CONTROLS = frozenset({"pitch", "hoarseness", "breathiness"})

Grain = tuple[FloatArray, int]
ComplexArray = NDArray[np.complex128]
IntArray = NDArray[np.int64]


class Vowel:
    """Periods of a real voice, made into a vowel as often as wanted.

    Parameters
    ----------
    syllable
        Mono, mostly voiced.

    Raises
    ------
    Refused
        `not_repeatable` with under five periods in its steadiest 80 ms.
    """

    def __init__(self, syllable: Sound) -> None:
        rate = syllable.sample_rate_hz * OVERSAMPLING
        marks_s = _core(syllable, praat.pitch_marks_s(syllable))
        self._sample_rate_hz = syllable.sample_rate_hz
        self.f0_hz = float(1.0 / np.median(np.diff(marks_s)))
        fine = soxr.resample(syllable.samples, syllable.sample_rate_hz, rate, "VHQ")
        grains = [_grain(fine, *(round(mark * rate) for mark in marks_s[i - 1 : i + 2])) for i in range(1, len(marks_s) - 1)]
        self._grains = _evened(grains, rate, self.f0_hz, OWN_SHARE)
        self._mean = _evened(grains, rate, self.f0_hz, 0.0)[:1]

    def sustained(self, parameters: Mapping[str, Any], controls: Mapping[str, Callable[[FloatArray], FloatArray]]) -> Sound:
        """The vowel held for a while.

        Parameters
        ----------
        parameters
            `duration_s`, `seed`, `jitter` (standard deviation from period to period, relative), `drift_semitones` (slow movement
            of F0, standard deviation).
        controls
            `pitch` in semitones; `hoarseness` as natural log of a factor on the jitter; `breathiness` in dB of noise re the
            periodic part (absolute), which are then the mean period and noise of its envelope, at constant power.
        """
        rng = np.random.default_rng(int(parameters["seed"]))
        duration_s = float(parameters["duration_s"])
        n_samples = round(duration_s * self._sample_rate_hz)
        dense_s = np.linspace(0.0, duration_s, int(duration_s / 0.002) + 2)
        n_most = int(duration_s * praat.PITCH_CEILING_HZ) + 2
        steps, deviations = rng.integers(1, len(self._grains), n_most), rng.standard_normal(n_most)
        semitones = voice.slow_noise(rng, duration_s, dense_s) * float(parameters["drift_semitones"])
        semitones = semitones + voice.control(controls, "pitch", dense_s)
        period_s = 1.0 / (self.f0_hz * 2.0 ** (semitones / 12.0))
        jitter = float(parameters["jitter"]) * np.exp(voice.control(controls, "hoarseness", dense_s))
        grains = self._mean if "breathiness" in controls else self._grains
        laid = self._laid(grains, _marks_s(dense_s, period_s, jitter, deviations), steps, n_samples)
        if "breathiness" in controls:
            breath = self._breath(rng, n_samples)
            laid = voice.breathed(laid, breath, controls["breathiness"](np.arange(n_samples) / self._sample_rate_hz))
        return Sound(laid, self._sample_rate_hz)

    def _laid(self, grains: list[Grain], marks_s: FloatArray, steps: IntArray, n_samples: int) -> FloatArray:
        """Grains overlap-added at marks, each another than the one before."""
        rate = self._sample_rate_hz * OVERSAMPLING
        out = np.zeros(n_samples * OVERSAMPLING)
        places = np.cumsum(steps[: len(marks_s)]) % len(grains)
        for at_s, place in zip(marks_s, places, strict=True):
            cut, mark = grains[place]
            _add(out, cut, mark, round(at_s * rate))
        return np.asarray(soxr.resample(out, rate, self._sample_rate_hz, "VHQ")[:n_samples], dtype=np.float64)

    def _breath(self, rng: np.random.Generator, n_samples: int) -> FloatArray:
        """Steady noise with the spectral envelope of the mean period."""
        once = soxr.resample(self._mean[0][0], self._sample_rate_hz * OVERSAMPLING, self._sample_rate_hz, "VHQ")
        made: FloatArray = signal.fftconvolve(rng.standard_normal(n_samples + len(once) - 1), once, "valid")
        return made


def _marks_s(dense_s: FloatArray, period_s: FloatArray, jitter: FloatArray, deviations: FloatArray) -> FloatArray:
    """Moments of the periods: each follows the one before by the period there, off by its jitter (no more than a half)."""
    marks = [0.0]
    for deviation in deviations:
        now = min(int(marks[-1] / dense_s[-1] * (len(dense_s) - 1)), len(dense_s) - 1)
        marks.append(marks[-1] + float(period_s[now] * np.clip(1.0 + jitter[now] * deviation, 0.5, 1.5)))
        if marks[-1] >= dense_s[-1]:
            break
    return np.array(marks[:-1])


def _core(syllable: Sound, marks_s: FloatArray) -> FloatArray:
    """The marks of the steadiest 80 ms: where neighbouring periods differ least in length and level, and are loud."""
    if len(marks_s) < MIN_PERIODS + 2:
        raise Refused(Reason.NOT_REPEATABLE, f"{counted(len(marks_s), 'period')} of F0, at least {MIN_PERIODS + 2} are needed")
    power = ndimage.uniform_filter1d(syllable.samples**2, max(round(np.median(np.diff(marks_s)) * syllable.sample_rate_hz), 1))
    level_db = 10.0 * np.log10(power[np.clip(np.rint(marks_s * syllable.sample_rate_hz).astype(int), 0, len(power) - 1)] + 1e-12)
    period_log = np.log(np.diff(marks_s))
    best, lowest = None, np.inf
    for first in range(len(marks_s)):
        last = int(np.searchsorted(marks_s, marks_s[first] + CORE_S, side="right"))
        steady = np.ptp(period_log[first : last - 1]) < np.log(1.25) if last - first >= 2 else False
        if last - first < MIN_PERIODS + 2 or not steady:
            continue
        cost = np.std(level_db[first:last]) - 0.5 * np.mean(level_db[first:last]) + 40.0 * np.std(period_log[first : last - 1])
        if cost < lowest:
            best, lowest = marks_s[first:last], cost
    if best is None:
        raise Refused(Reason.NOT_REPEATABLE, f"no {CORE_S * 1000:.0f} ms with at least {MIN_PERIODS} steady periods")
    return best


def _grain(fine: FloatArray, before: int, at: int, after: int) -> tuple[FloatArray, int]:
    """Two periods about a mark under a window that falls to 0 at its neighbours, at unit RMS; and where in it the mark lies."""
    rise = 0.5 - 0.5 * np.cos(np.pi * np.arange(at - before) / (at - before))
    fall = 0.5 + 0.5 * np.cos(np.pi * np.arange(after - at) / (after - at))
    cut = fine[before:after] * np.concatenate([rise, fall])[: len(fine[before:after])]
    return cut / np.sqrt(np.mean(cut**2)), at - before


def _evened(grains: list[Grain], rate_hz: int, f0_hz: float, kept: float) -> list[Grain]:
    """Grains about one mean grain, all with the spectral envelope that they have on average and unit RMS.

    A voice moves within 80 ms, and a codec drops bands from one period to the next: laid in any order, grains as they were
    cut would be heard as steps of timbre, and their unlike phases as roughness.

    Parameters
    ----------
    kept
        Share of each grain's own difference from the mean grain, at every frequency.
    """
    before = max(mark for _, mark in grains)
    length = before + max(len(cut) - mark for cut, mark in grains)
    laid = np.array([np.pad(cut, (before - mark, length - before - len(cut) + mark)) for cut, mark in grains])
    size = scipy_fft.next_fast_len(2 * length, real=True)
    spectra = scipy_fft.rfft(laid, size, axis=1)
    width = EVEN_WIDTH_PERIODS * f0_hz * size / rate_hz
    wanted = np.exp(np.log(_smooth_power(spectra, width)).mean(axis=0))
    mean = spectra.mean(axis=0)
    spectra = mean + kept * (spectra - mean)
    gain = np.clip(np.sqrt(wanted / _smooth_power(spectra, width)), *EVEN_GAIN)
    made = scipy_fft.irfft(spectra * gain, size, axis=1)[:, :length]
    return [(cut / np.sqrt(np.mean(cut**2)), before) for cut in made]


def _smooth_power(spectra: ComplexArray, width: float) -> FloatArray:
    return ndimage.gaussian_filter1d(np.abs(spectra) ** 2, width, axis=1, mode="nearest") + 1e-9


def _add(out: FloatArray, grain: FloatArray, mark: int, at: int) -> None:
    start = at - mark
    low, high = max(start, 0), min(start + len(grain), len(out))
    if high > low:
        out[low:high] += grain[low - start : high - start]
