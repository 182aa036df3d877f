"""Praat, through parselmouth: the only file that imports it.

Praat 6.1.38 (embedded in praat-parselmouth 0.4.7) has no Python class for Manipulation, so string commands are called.
All analysis parameters are named and fixed here: Praat's defaults have changed between versions.

`DurationTier` resynthesis draws from Praat's own random generator; it's seeded before every resynthesis, which makes
the samples repeatable.

References
----------
Boersma, P. (1993). Accurate short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a
sampled sound. IFA Proceedings 17, 97-110.
De Looze, C. & Rauzy, S. (2009). Automatic detection and prediction of topic changes through automatic detection of
register variations and pause duration. Interspeech 2009, 2919-2922 (F0 range from quantiles).
Moulines, E. & Charpentier, F. (1990). Pitch-synchronous waveform processing techniques for text-to-speech synthesis
using diphones. Speech Communication 9, 453-467.
"""

from __future__ import annotations

import numpy as np
import parselmouth
from parselmouth.praat import call

from builder.errors import Refused
from builder.records import Contour, FloatArray, Reason, Sound

PITCH_FLOOR_HZ = 60.0
PITCH_CEILING_HZ = 700.0
PITCH_STEP_S = 0.01
RANGE_STEP_S = 0.03
"""Of the first pass for a range, whose quantiles need no more frames: on 93 cuts, vowels and syllables it moved floor and ceiling by
under half a semitone in 95 % against steps of 10 ms, and no F0 by an octave, at a third of the cost."""
HARMONICITY_PERIODS = 4.5
"""Periods of the floor in a window of harmonicity; Boersma's (1993) figure."""
SHORTEST_S = 3.0 / PITCH_FLOOR_HZ + 2.0 * PITCH_STEP_S
"""Praat's window holds three periods of the floor; under this it raises."""


def _praat(sound: Sound) -> parselmouth.Sound:
    return parselmouth.Sound(sound.mono, sampling_frequency=sound.sample_rate_hz)


def _autocorrelation_hz(sound: Sound, floor_hz: float, ceiling_hz: float, step_s: float = PITCH_STEP_S) -> Contour:
    pitch = _praat(sound).to_pitch_ac(
        time_step=step_s,
        pitch_floor=floor_hz,
        max_number_of_candidates=15,
        very_accurate=False,
        silence_threshold=0.03,
        voicing_threshold=0.45,
        octave_cost=0.01,
        octave_jump_cost=0.35,
        voiced_unvoiced_cost=0.14,
        pitch_ceiling=ceiling_hz,
    )
    frequency = pitch.selected_array["frequency"].astype(np.float64)
    return Contour(pitch.xs(), np.where(frequency > 0, frequency, np.nan))


def f0_range_hz(sound: Sound) -> tuple[float, float]:
    """Floor and ceiling for one sound's F0, from a first pass over 60 to 700 Hz (De Looze & Rauzy 2009).

    Octave errors live outside the range that a voice uses: floor = 0.72 q35 - 10, ceiling = 1.9 q65 + 10 Hz, where q are
    quantiles of the first pass; widened so that they are never closer than an octave and a half to the median.
    """
    return sound.once("f0_range_hz", _f0_range_hz)


def median_f0_hz(sound: Sound) -> float:
    """Median F0 of the first pass over 60 to 700 Hz, each 30 ms; `nan` where nothing is voiced and under 70 ms."""
    voiced = sound.once("voiced_hz", _voiced_hz) if sound.duration_s >= SHORTEST_S else np.zeros(0)
    return float(np.median(voiced)) if voiced.size else float("nan")


def _voiced_hz(sound: Sound) -> FloatArray:
    """F0 of the voiced frames of a first pass."""
    first = _autocorrelation_hz(sound, PITCH_FLOOR_HZ, PITCH_CEILING_HZ, RANGE_STEP_S)
    return first.value[first.valid]


def _f0_range_hz(sound: Sound) -> tuple[float, float]:
    if sound.duration_s < SHORTEST_S:
        return PITCH_FLOOR_HZ, PITCH_CEILING_HZ
    voiced = sound.once("voiced_hz", _voiced_hz)
    if voiced.size == 0:
        return PITCH_FLOOR_HZ, PITCH_CEILING_HZ
    low, median, high = np.percentile(voiced, [35, 50, 65])
    floor_hz = min(0.72 * low - 10.0, median / 2.0**0.75)
    ceiling_hz = max(1.9 * high + 10.0, median * 2.0**0.75)
    return max(float(floor_hz), PITCH_FLOOR_HZ), min(float(ceiling_hz), PITCH_CEILING_HZ)


def f0_autocorrelation_hz(sound: Sound) -> Contour:
    """F0 by Boersma's (1993) autocorrelation method, in the range that `f0_range_hz` finds.

    Returns
    -------
    Contour
        Hz at 10 ms steps, `nan` where unvoiced; empty if the sound is shorter than the analysis window (50 ms).
    """
    if sound.duration_s < SHORTEST_S:
        return Contour(np.zeros(0), np.zeros(0))
    return _autocorrelation_hz(sound, *f0_range_hz(sound))


def pitch_marks_s(sound: Sound) -> FloatArray:
    """Moments of glottal pulses by Praat's cross-correlation point process, in the range that `f0_range_hz` finds.

    Returns
    -------
    ndarray
        float64, shape (n,), ascending, seconds; empty where unvoiced or under 70 ms.
    """
    if sound.duration_s < SHORTEST_S:
        return np.zeros(0)
    marks = call(_praat(sound), "To PointProcess (periodic, cc)", *f0_range_hz(sound))
    if call(marks, "Get number of points") == 0:
        return np.zeros(0)
    return np.array(call(marks, "To Matrix").values[0], dtype=np.float64)


def harmonicity_db(sound: Sound, floor_hz: float, step_s: float) -> Contour:
    """Harmonics-to-noise ratio by Boersma's (1993) autocorrelation method, in Gaussian windows of 4.5 periods of the floor.

    Parameters
    ----------
    floor_hz
        Lowest F0.
    step_s
        Between frames.

    Returns
    -------
    Contour
        dB; `nan` in frames that Praat takes as silent; empty if the sound is shorter than ten periods of the floor: a Gaussian
        window reaches out to twice its nominal length.
    """
    if sound.duration_s < (2.0 * HARMONICITY_PERIODS + 1.0) / floor_hz:
        return Contour(np.zeros(0), np.zeros(0))
    found = _praat(sound).to_harmonicity_ac(
        time_step=step_s, minimum_pitch=floor_hz, silence_threshold=0.03, periods_per_window=HARMONICITY_PERIODS
    )
    value = found.values[0].astype(np.float64)
    return Contour(found.xs(), np.where(value > -100.0, value, np.nan))


def formants_hz(sound: Sound, step_s: float, ceiling_hz: float, n_formants: int) -> tuple[FloatArray, FloatArray]:
    """Formant frequencies by Burg's method, in Gaussian-like windows of 50 ms (Praat's 25 ms), pre-emphasised from 50 Hz.

    Parameters
    ----------
    step_s
        Between frames.
    ceiling_hz, n_formants
        So many formants are looked for below the ceiling.

    Returns
    -------
    time_s
        float64, shape (n_frames,).
    frequency_hz
        float64, shape (n_formants, n_frames), ascending; `nan` where fewer are found. Both empty if the sound is under 70 ms.
    """
    if sound.duration_s < SHORTEST_S:
        return np.zeros(0), np.zeros((n_formants, 0))
    found = _praat(sound).to_formant_burg(
        time_step=step_s, max_number_of_formants=n_formants, maximum_formant=ceiling_hz, window_length=0.025, pre_emphasis_from=50.0
    )
    time_s = found.xs()
    frequency_hz = [[found.get_value_at_time(number + 1, time) for time in time_s] for number in range(n_formants)]
    return time_s, np.array(frequency_hz, dtype=np.float64).reshape(n_formants, len(time_s))


def _points(tier: parselmouth.Data) -> tuple[FloatArray, FloatArray]:
    """Times and values of a PitchTier; both float64, shape (n_points,)."""
    if call(tier, "Get number of points") == 0:
        return np.zeros(0), np.zeros(0)
    time_s, value = call(call(tier, "Down to TableOfReal", "Hertz"), "To Matrix").values.T.astype(np.float64)
    return time_s, value


def _tier(kind: str, duration_s: float, time_s: FloatArray, value: FloatArray) -> parselmouth.Data:
    """A PitchTier or DurationTier with points; one script adds them all, a call for each would take 20 times as long."""
    if len(time_s) == 0:
        return call(f"Create {kind}", "points", 0.0, duration_s)
    points = parselmouth.Sound(np.array([time_s, value]), sampling_frequency=1.0)
    script = f"""
        points = selected ("Sound")
        n = Get number of samples
        Create {kind}: "points", 0.0, {duration_s!r}
        for i to n
            Add point: object [points, 1, i], object [points, 2, i]
        endfor
    """
    (made,) = parselmouth.praat.run(points, script)
    return made


class Overlap:
    """A sound analysed once for pitch-synchronous overlap-add, resynthesised as often as wanted.

    Parameters
    ----------
    sound
        Mono.

    Raises
    ------
    Refused
        `too_short` under 70 ms.
    """

    def __init__(self, sound: Sound) -> None:
        if sound.duration_s < SHORTEST_S:
            raise Refused(Reason.TOO_SHORT, f"{sound.duration_s * 1000:.0f} ms, at least {SHORTEST_S * 1000:.0f} ms are needed")
        self._sample_rate_hz = sound.sample_rate_hz
        self._duration_s = sound.duration_s
        self._manipulation = call(_praat(sound), "To Manipulation", PITCH_STEP_S, *f0_range_hz(sound))
        self.time_s, self.f0_hz = _points(call(self._manipulation, "Extract pitch tier"))
        self.nbytes = sound.mono.nbytes
        """What Praat holds, out of sight of numpy: a copy of the sound, beside which its tiers are small."""

    def with_f0(self, f0_hz: FloatArray) -> Sound:
        """The sound with another F0 at each of `time_s`, the same duration.

        Parameters
        ----------
        f0_hz
            float64, shape of `time_s`.

        Returns
        -------
        Sound
            As many samples as the original.
        """
        return self._resynthesise(f0_hz, np.zeros(0), np.zeros(0), seed=0)

    def with_durations(self, time_s: FloatArray, factor: FloatArray, seed: int) -> Sound:
        """The sound stretched locally: each stretch of time lasts `factor` times as long.

        Parameters
        ----------
        time_s, factor
            float64, shape (n,): points of a DurationTier, linear in between.
        seed
            For Praat's generator, which fills unvoiced stretches.

        Returns
        -------
        Sound
            Of whatever length the factors add up to.
        """
        return self._resynthesise(self.f0_hz, time_s, factor, seed)

    def _resynthesise(self, f0_hz: FloatArray, time_s: FloatArray, factor: FloatArray, seed: int) -> Sound:
        """Both tiers are replaced every time: Praat's "Replace" commands change the Manipulation for good."""
        for kind, tier in (
            ("pitch", _tier("PitchTier", self._duration_s, self.time_s, f0_hz)),
            ("duration", _tier("DurationTier", self._duration_s, time_s, factor)),
        ):
            call([self._manipulation, tier], f"Replace {kind} tier")
        parselmouth.praat.run(f"x = random_initializeWithSeedUnsafelyButPredictably ({seed})")
        made = call(self._manipulation, "Get resynthesis (overlap-add)")
        return Sound(np.ascontiguousarray(made.values[0], dtype=np.float64), self._sample_rate_hz)
