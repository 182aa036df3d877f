"""Sounds made from parameters: a source-filter voice, tones, noises and pulse trains.

Each maker takes a parameter mapping (JSON-able, fully determined), a sample rate and `controls`: dimension name ->
function of time (s) giving the change there, in the dimension's unit. What a maker can control directly is named in
`CONTROLS`. With the same parameters, the same random movement (jitter, noise) lies under every control.

References
----------
Fant, G. (1960). Acoustic Theory of Speech Production. Mouton (effect of the poles above the named formants).
Klatt, D. H. (1980). Software for a cascade/parallel formant synthesizer. JASA 67(3), 971-995 (resonators).
Klatt, D. H. & Klatt, L. C. (1990). Analysis, synthesis, and perception of voice quality variations among female and
male talkers. JASA 87(2), 820-857 (KLGLOTT88 glottal pulse, aspiration).
Peterson, G. E. & Barney, H. L. (1952). Control methods used in a study of the vowels. JASA 24(2), 175-184 (mean F1-F3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import soxr
from scipy import fft as scipy_fft
from scipy import signal

from builder.acoustics import filters
from builder.records import FloatArray, Sound

Controls = Mapping[str, Callable[[FloatArray], FloatArray]]

OVERSAMPLING = 4
EVENT_EDGE = 0.15
"""Share of an event that a row's ends cut off: a slow rise from silence would tell the rate there by how long it takes."""
SYLLABLE_DUTY = 0.75
"""Share of its interval that a synthetic syllable sounds."""

VOWEL_FORMANTS_HZ: dict[str, dict[str, tuple[float, float, float]]] = {
    "man": {"i": (270, 2290, 3010), "e": (530, 1840, 2480), "ae": (660, 1720, 2410), "a": (730, 1090, 2440),
            "o": (570, 840, 2410), "u": (300, 870, 2240), "uh": (640, 1190, 2390), "er": (490, 1350, 1690)},
    "woman": {"i": (310, 2790, 3310), "e": (610, 2330, 2990), "ae": (860, 2050, 2850), "a": (850, 1220, 2810),
              "o": (590, 920, 2710), "u": (370, 950, 2670), "uh": (760, 1400, 2780), "er": (500, 1640, 1960)},
    "child": {"i": (370, 3200, 3730), "e": (690, 2610, 3570), "ae": (1010, 2320, 3320), "a": (1030, 1370, 3170),
              "o": (680, 1060, 3180), "u": (430, 1170, 3260), "uh": (850, 1590, 3360), "er": (560, 1820, 2160)},
}  # fmt: skip
"""Peterson & Barney's (1952) means, by talker group and vowel."""

HIGHER_FORMANTS_HZ = {"man": (3500.0, 4500.0), "woman": (4100.0, 5300.0), "child": (4700.0, 6100.0)}
FORMANT_BANDWIDTH_HZ = (60.0, 90.0, 150.0, 200.0, 250.0)
HIGHEST_BANDWIDTH_HZ = 300.0
TILT_FROM_HZ = 500.0
MAX_TRACT_SCALE = 2.0
"""Largest factor by which `formants` may move the resonances either way."""
FORMANT_SPACING_HZ = {"man": 1000.0, "woman": 1170.0, "child": 1350.0}
"""Above the named formants a tract has one each so many Hz; without them a cascade is far too dull (Fant 1960)."""
F0_RANGE_HZ = {"man": (90.0, 145.0), "woman": (165.0, 245.0), "child": (230.0, 320.0)}


def _phase(rate_hz: FloatArray, sample_rate_hz: int) -> FloatArray:
    """Cycles since the start at each sample."""
    return np.concatenate([[0.0], np.cumsum(rate_hz[:-1])]) / sample_rate_hz


def control(controls: Controls, name: str, time_s: FloatArray) -> FloatArray:
    """A control at given times; 0 where it isn't asked for."""
    return controls[name](time_s) if name in controls else np.zeros_like(time_s)


def warp(log_rate: Callable[[FloatArray], FloatArray] | None, duration_s: float) -> tuple[FloatArray, FloatArray]:
    """Where in the original each moment of a clip with a varying rate comes from.

    The rate is normalised so that the clip lasts as long as the original.

    Parameters
    ----------
    log_rate
        Natural logarithm of the local rate over the clip's own time, up to a constant; None for no change.
    duration_s
        Of the clip and of the original.

    Returns
    -------
    clip_time_s, original_time_s
        float64, shape (n,), both from 0 to `duration_s`, dense (at least each 2 ms).
    """
    n = max(int(np.ceil(duration_s / 0.002)), 8)
    clip_time_s = np.linspace(0.0, duration_s, n + 1)
    if log_rate is None:
        return clip_time_s, clip_time_s
    rate = np.exp(log_rate(clip_time_s))
    passed = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2.0)])
    return clip_time_s, passed / passed[-1] * duration_s


def voice(parameters: Mapping[str, Any], sample_rate_hz: int, controls: Controls) -> Sound:
    """A sustained vowel, or an isochronous row of syllables, from a pulse train through formants.

    Parameters
    ----------
    parameters
        `group` (man, woman, child), `vowel`, `f0_hz`, `tract_scale` (multiplies formants), `open_quotient`,
        `source_tilt_db_per_octave` (of the glottal source above 500 Hz, on top of the pulse's own),
        `jitter` and `shimmer` (standard deviation from cycle to cycle, relative), `aspiration_db` (re the pulses),
        `drift_semitones` (slow movement of F0, standard deviation), `duration_s`, `syllable_rate_hz` (None for a
        sustained vowel), `seed`.
    controls
        `pitch` in semitones; `tempo` as natural log of rate (with syllables); `formants` as 100 times the natural log of a
        factor on all of the tract's resonances; `hoarseness` as natural log of a factor on jitter and shimmer; `breathiness`
        in dB of noise re the pulses (absolute), which is then noise of the pulses' own spectrum, at constant power, instead
        of `aspiration_db`.
    """
    rng = np.random.default_rng(int(parameters["seed"]))
    rate = sample_rate_hz * OVERSAMPLING
    n_samples = round(float(parameters["duration_s"]) * sample_rate_hz)
    time_s = np.arange(n_samples * OVERSAMPLING) / rate
    n_cycles = int(700.0 * float(parameters["duration_s"])) + 2
    period_noise = float(parameters["jitter"]) * rng.standard_normal(n_cycles)
    level_noise = float(parameters["shimmer"]) * rng.standard_normal(n_cycles)
    drift = slow_noise(rng, float(parameters["duration_s"]), time_s) * float(parameters["drift_semitones"])
    aspiration = rng.standard_normal(len(time_s))

    semitones = control(controls, "pitch", time_s) + drift
    cycles = _phase(float(parameters["f0_hz"]) * np.exp(semitones * (np.log(2.0) / 12.0)), rate)
    if "hoarseness" in controls:
        factor = np.exp(controls["hoarseness"](np.interp(np.arange(n_cycles), cycles, time_s)))
        period_noise, level_noise = (np.clip(factor * noise, -0.5, 0.5) for noise in (period_noise, level_noise))
    period, level = 1.0 + period_noise, 1.0 + level_noise
    boundaries = np.concatenate([[0.0], np.cumsum(period)])
    cycle = _last_before(boundaries, cycles)
    within = (cycles - boundaries[cycle]) / period[cycle]
    opened = within / float(parameters["open_quotient"])
    flow = np.where(opened < 1.0, 2.0 * opened - 3.0 * opened**2, 0.0) * level[cycle]
    breath = aspiration * np.where(opened < 1.0, 1.0, 0.5)
    if "breathiness" in controls:
        excitation = breathed(flow, _like_pulses(breath, parameters, rate), controls["breathiness"](time_s))
    else:
        excitation = flow + 10.0 ** (float(parameters["aspiration_db"]) / 20.0) * breath * np.std(flow)
    excitation = soxr.resample(excitation, rate, sample_rate_hz, "VHQ")[:n_samples]
    sound = _through_tract(Sound(excitation, sample_rate_hz), parameters, controls.get("formants"))
    return Sound(sound.samples * _syllables(parameters, n_samples, sample_rate_hz, controls), sample_rate_hz)


def _last_before(boundaries: FloatArray, rising: FloatArray) -> np.ndarray:
    """Number of the last boundary at or under each of many rising values; int64, shape of `rising`.

    As `searchsorted(boundaries, rising, "right") - 1`, with a search per boundary instead of one per value.
    """
    first = np.searchsorted(rising, boundaries, side="left")
    return np.repeat(np.arange(len(boundaries)), np.diff(first, append=len(rising)))


def _like_pulses(noise: FloatArray, parameters: Mapping[str, Any], rate_hz: int) -> FloatArray:
    """Noise with the spectral envelope of the glottal pulses; as long."""
    opened = np.arange(0.0, 1.0, float(parameters["f0_hz"]) / (float(parameters["open_quotient"]) * rate_hz))
    made: FloatArray = signal.oaconvolve(noise, 2.0 * opened - 3.0 * opened**2, "same")
    return made


def breathed(periodic: FloatArray, noise: FloatArray, noise_to_harmonics_db: FloatArray) -> FloatArray:
    """Periodic sound and noise mixed at a ratio that varies over time, at constant power.

    Parameters
    ----------
    periodic, noise
        float64, shape (n,); the noise is brought to the power of the periodic sound first.
    noise_to_harmonics_db
        float64, shape (n,): ratio of the powers at each sample.

    Returns
    -------
    ndarray
        float64, shape (n,).
    """
    ratio = 10.0 ** (noise_to_harmonics_db / 20.0)
    return (periodic + ratio * noise * (np.std(periodic) / np.std(noise))) / np.sqrt(1.0 + ratio**2)


def slow_noise(rng: np.random.Generator, duration_s: float, time_s: FloatArray) -> FloatArray:
    """Unit-variance noise with a knot each 0.4 s, straight in between, its own straight line taken out."""
    knots = np.arange(0.0, duration_s + 0.8, 0.4)
    value = rng.standard_normal(len(knots))
    value -= np.polyval(np.polyfit(knots, value, 1), knots)
    return np.interp(time_s, knots, value)


def _through_tract(sound: Sound, parameters: Mapping[str, Any], log_scale: Callable[[FloatArray], FloatArray] | None) -> Sound:
    """Behind the tract's resonances; with `log_scale` (100 ln of a factor) all their frequencies and widths are scaled over time."""
    poles = _poles_hz(str(parameters["group"]), str(parameters["vowel"]), float(parameters["tract_scale"]))
    tilt = float(parameters["source_tilt_db_per_octave"])

    def tract_db(frequency_hz: FloatArray) -> FloatArray:
        return _resonances_db(frequency_hz, np.array(poles))

    def gain_db(time_s: FloatArray, frequency_hz: FloatArray) -> FloatArray:
        slope = tilt * np.log2(np.maximum(frequency_hz, TILT_FROM_HZ) / TILT_FROM_HZ)
        if log_scale is None:
            return slope + tract_db(frequency_hz) + 0.0 * time_s
        grid_hz = np.arange(0.0, MAX_TRACT_SCALE * sound.sample_rate_hz / 2.0 + 20.0, 10.0)
        scaled_hz = frequency_hz * np.exp(-log_scale(time_s) / 100.0)
        return slope + np.interp(scaled_hz, grid_hz, tract_db(grid_hz))

    return filters.filtered(sound, gain_db)


def _poles_hz(group: str, vowel: str, scale: float) -> list[tuple[float, float]]:
    """Centre and bandwidth of the tract's poles: five formants, then evenly spaced ones up to 100 kHz."""
    centres = (*VOWEL_FORMANTS_HZ[group][vowel], *HIGHER_FORMANTS_HZ[group])
    named = [(centre * scale, width) for centre, width in zip(centres, FORMANT_BANDWIDTH_HZ, strict=True)]
    spacing = FORMANT_SPACING_HZ[group] * scale
    n_higher = int((100_000.0 - named[-1][0]) / spacing)
    return named + [(named[-1][0] + spacing * (i + 1), HIGHEST_BANDWIDTH_HZ) for i in range(n_higher)]


def _resonances_db(frequency_hz: FloatArray, poles_hz: FloatArray) -> FloatArray:
    """Magnitude of a cascade of second-order resonators with unit gain at 0 Hz.

    Parameters
    ----------
    frequency_hz
        float64, any shape.
    poles_hz
        float64, shape (n_poles, 2): centres and bandwidths.

    Returns
    -------
    ndarray
        float64, dB, shape of `frequency_hz`.
    """
    centre_hz, bandwidth_hz = poles_hz.T
    ratio = (frequency_hz[..., None] / centre_hz) ** 2
    decibels: FloatArray = -10.0 * np.log10(np.prod((1.0 - ratio) ** 2 + ratio * (bandwidth_hz / centre_hz) ** 2, axis=-1))
    return decibels


def _syllables(parameters: Mapping[str, Any], n_samples: int, sample_rate_hz: int, controls: Controls) -> FloatArray | float:
    rate_hz = parameters.get("syllable_rate_hz")
    if rate_hz is None:
        return 1.0
    duration_s = n_samples / sample_rate_hz
    clip_time_s, original_time_s = warp(controls.get("tempo"), duration_s)
    original = np.interp(np.arange(n_samples) / sample_rate_hz, clip_time_s, original_time_s)
    within = _within_event(original * float(rate_hz), SYLLABLE_DUTY)
    envelope: FloatArray = np.sin(np.pi * within) ** 1.5 + 1e-4
    return envelope


def _within_event(intervals: FloatArray, duty: float) -> FloatArray:
    """Where in its event, 0 to 1, each moment of a row lies; 1 in the silence after it.

    Parameters
    ----------
    intervals
        Time since the start of the row, in intervals between events. The row begins `EVENT_EDGE` into its first event.
    """
    return np.clip(np.mod(intervals + EVENT_EDGE * duty, 1.0) / duty, 0.0, 1.0)


def row_duration_s(rate_hz: float, n_events: int, duty: float) -> float:
    """Duration of a row of events that begins `EVENT_EDGE` into its first event and ends as much before its last one's end."""
    return round((n_events - 1.0 + duty * (1.0 - 2.0 * EVENT_EDGE)) / rate_hz, 4)


def tone(parameters: Mapping[str, Any], sample_rate_hz: int, controls: Controls) -> Sound:
    """A pure or complex tone.

    Parameters
    ----------
    parameters
        `f0_hz`, `n_harmonics` (1: pure), `rolloff_db_per_octave`, `duration_s`, `seed` (phases).
    controls
        `pitch` in semitones.
    """
    rng = np.random.default_rng(int(parameters["seed"]))
    n_samples = round(float(parameters["duration_s"]) * sample_rate_hz)
    time_s = np.arange(n_samples) / sample_rate_hz
    f0_hz = float(parameters["f0_hz"]) * 2.0 ** (control(controls, "pitch", time_s) / 12.0)
    cycles = _phase(f0_hz, sample_rate_hz)
    samples = np.zeros(n_samples)
    for harmonic in range(1, int(parameters["n_harmonics"]) + 1):
        level_db = -float(parameters["rolloff_db_per_octave"]) * np.log2(harmonic)
        below_nyquist = np.clip((0.47 * sample_rate_hz - harmonic * f0_hz) / 300.0, 0.0, 1.0)
        offset = 0.0 if harmonic == 1 else rng.uniform(0.0, 1.0)
        samples += 10.0 ** (level_db / 20.0) * below_nyquist * np.sin(2.0 * np.pi * (harmonic * cycles + offset))
    return Sound(samples, sample_rate_hz)


def noise(parameters: Mapping[str, Any], sample_rate_hz: int, controls: Controls) -> Sound:
    """Gaussian noise with a straight spectrum on log-log axes.

    Parameters
    ----------
    parameters
        `slope_db_per_octave` (0 white, -3 pink), `low_hz`, `high_hz` (pass band), `duration_s`, `seed`.
    controls
        None are used.
    """
    del controls
    rng = np.random.default_rng(int(parameters["seed"]))
    n_samples = round(float(parameters["duration_s"]) * sample_rate_hz)
    frequency_hz = scipy_fft.rfftfreq(n_samples, 1.0 / sample_rate_hz)
    octave = np.log2(np.maximum(frequency_hz, 20.0) / 1000.0)
    inside = (frequency_hz >= float(parameters["low_hz"])) & (frequency_hz <= float(parameters["high_hz"]))
    shaped = scipy_fft.rfft(rng.standard_normal(n_samples)) * 10.0 ** (float(parameters["slope_db_per_octave"]) * octave / 20.0)
    return Sound(scipy_fft.irfft(np.where(inside, shaped, 0.0), n=n_samples), sample_rate_hz)


def pulses(parameters: Mapping[str, Any], sample_rate_hz: int, controls: Controls) -> Sound:
    """An isochronous row of short tone or noise bursts, each as long a share of its interval as the others.

    A row begins with its first burst and ends with its last: silence at the ends would tell the rate there.

    Parameters
    ----------
    parameters
        `rate_hz` (bursts per second), `duty` (share of the interval that sounds), `carrier_hz` (None: noise),
        `duration_s`, `seed`.
    controls
        `tempo` as natural log of rate.
    """
    rng = np.random.default_rng(int(parameters["seed"]))
    n_samples = round(float(parameters["duration_s"]) * sample_rate_hz)
    time_s = np.arange(n_samples) / sample_rate_hz
    clip_time_s, original_time_s = warp(controls.get("tempo"), n_samples / sample_rate_hz)
    intervals = np.interp(time_s, clip_time_s, original_time_s) * float(parameters["rate_hz"])
    envelope = np.sin(np.pi * _within_event(intervals, float(parameters["duty"]))) ** 2
    if parameters["carrier_hz"] is None:
        carrier = noise({"slope_db_per_octave": -3.0, "low_hz": 100.0, "high_hz": 7000.0, **parameters}, sample_rate_hz, {}).samples
    else:
        carrier = np.sin(2.0 * np.pi * (float(parameters["carrier_hz"]) * time_s + rng.uniform()))
    return Sound(envelope * carrier, sample_rate_hz)


MAKERS: dict[str, Callable[[Mapping[str, Any], int, Controls], Sound]] = {
    "voice": voice,
    "voice_syllables": voice,
    "tone": tone,
    "noise": noise,
    "pulses": pulses,
}

CONTROLS: dict[str, frozenset[str]] = {
    "voice": frozenset({"pitch", "formants", "breathiness", "hoarseness"}),
    "voice_syllables": frozenset({"pitch", "tempo", "formants", "breathiness", "hoarseness"}),
    "tone": frozenset({"pitch"}),
    "noise": frozenset(),
    "pulses": frozenset({"tempo"}),
}
"""What each maker controls directly, by dimension name."""
