"""A sustained vowel out of a real syllable: some neighbouring periods of the voice, laid again and again.

Periods are cut out at Praat's pitch marks under windows of two periods and overlap-added at marks of our own, as in
pitch-synchronous overlap-add; which period comes next is a random walk among neighbours, so that no pattern of theirs repeats.

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
from scipy import ndimage

from builder.acoustics import praat, voice
from builder.errors import Refused
from builder.records import FloatArray, Reason, Sound

OVERSAMPLING = 8
"""Marks lie on a grid this many times finer than the samples: at 16 kHz a period of 5 ms is placed to 0.16 %."""
CORE_S = 0.08
"""Length of the steadiest stretch of a syllable that periods are taken from."""
MIN_PERIODS = 5
CONTROLS = frozenset({"pitch", "hoarseness"})


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
        self._grains = [_grain(fine, *(round(mark * rate) for mark in marks_s[i - 1 : i + 2])) for i in range(1, len(marks_s) - 1)]

    def sustained(self, parameters: Mapping[str, Any], controls: Mapping[str, Callable[[FloatArray], FloatArray]]) -> Sound:
        """The vowel held for a while.

        Parameters
        ----------
        parameters
            `duration_s`, `seed`, `jitter` (standard deviation from period to period, relative), `drift_semitones` (slow movement
            of F0, standard deviation).
        controls
            `pitch` in semitones; `hoarseness` as natural log of a factor on the jitter.
        """
        rng = np.random.default_rng(int(parameters["seed"]))
        duration_s = float(parameters["duration_s"])
        rate = self._sample_rate_hz * OVERSAMPLING
        n_samples = round(duration_s * self._sample_rate_hz)
        dense_s = np.linspace(0.0, duration_s, int(duration_s / 0.002) + 2)
        n_most = int(duration_s * praat.PITCH_CEILING_HZ) + 2
        steps, noise = rng.integers(-1, 2, n_most), rng.standard_normal(n_most)
        semitones = voice.slow_noise(rng, duration_s, dense_s) * float(parameters["drift_semitones"])
        semitones = semitones + voice.control(controls, "pitch", dense_s)
        period_s = 1.0 / (self.f0_hz * 2.0 ** (semitones / 12.0))
        jitter = float(parameters["jitter"]) * np.exp(voice.control(controls, "hoarseness", dense_s))
        out = np.zeros(n_samples * OVERSAMPLING)
        at_s, place = 0.0, len(self._grains) // 2
        for step, deviation in zip(steps, noise, strict=True):
            if at_s >= duration_s:
                break
            _add(out, *self._grains[place], round(at_s * rate))
            place = int(np.clip(place + step, 0, len(self._grains) - 1))
            now = min(int(at_s / duration_s * (len(dense_s) - 1)), len(dense_s) - 1)
            at_s += float(period_s[now] * np.clip(1.0 + jitter[now] * deviation, 0.5, 1.5))
        return Sound(soxr.resample(out, rate, self._sample_rate_hz, "VHQ")[:n_samples], self._sample_rate_hz)


def _core(syllable: Sound, marks_s: FloatArray) -> FloatArray:
    """The marks of the steadiest 80 ms: where neighbouring periods differ least in length and level, and are loud."""
    if len(marks_s) < MIN_PERIODS + 2:
        raise Refused(Reason.NOT_REPEATABLE, f"{len(marks_s)} periods of F0, at least {MIN_PERIODS + 2} are needed")
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


def _add(out: FloatArray, grain: FloatArray, mark: int, at: int) -> None:
    start = at - mark
    low, high = max(start, 0), min(start + len(grain), len(out))
    if high > low:
        out[low:high] += grain[low - start : high - start]
