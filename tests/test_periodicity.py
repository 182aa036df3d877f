"""Meters of periodicity on sounds whose answer is known, and the sweeps of breathiness and hoarseness that they hear."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from builder import sources
from builder.acoustics import meters, periodicity, praat, statistics, voice
from builder.dimensions import BY_NAME, Planned
from builder.errors import Refused
from builder.recipe import SpeechRule
from builder.records import FloatArray, Reason, Sound, Source
from builder.synthesis import drawn

RATE_HZ = 16_000


def complex_tone(f0_hz: float = 150.0, duration_s: float = 2.0, rate_hz: int = RATE_HZ) -> FloatArray:
    """Twelve equal harmonics with a mean square of 0.01, in random phases."""
    time_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    phases = np.random.default_rng(3).uniform(0.0, 2.0 * np.pi, 12)
    made = sum(np.sin(2.0 * np.pi * f0_hz * (k + 1) * time_s + phase) for k, phase in enumerate(phases))
    return np.asarray(0.1 * made / np.sqrt(6.0))


def with_noise(noise_db: float, rate_hz: int = RATE_HZ) -> Sound:
    """The complex tone with white noise at a level re it."""
    tone = complex_tone(rate_hz=rate_hz)
    noise = np.random.default_rng(1).standard_normal(len(tone))
    return Sound(tone + 0.1 * 10.0 ** (noise_db / 20.0) * noise, rate_hz)


def pulses(periods_s: FloatArray) -> Sound:
    """A row of damped resonances at 600 Hz, one at the start of each period, placed between samples."""
    starts_s = 0.02 + np.cumsum(periods_s)
    time_s = np.arange(round((starts_s[-1] + 0.02) * RATE_HZ)) / RATE_HZ
    made = np.zeros(len(time_s))
    for start_s in starts_s:
        since_s = np.maximum(time_s - start_s, 0.0)
        made += np.exp(-600.0 * since_s) * np.sin(2.0 * np.pi * 600.0 * since_s)
    return Sound(0.2 * made, RATE_HZ)


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 48_000])
@pytest.mark.parametrize("noise_db", [-25.0, -15.0, -5.0, 0.0])
def test_noise_to_harmonics_reads_what_was_mixed(noise_db: float, rate_hz: int) -> None:
    """White noise at a level re a complex tone reads that level, to 1 dB, at any rate."""
    found = periodicity.noise_to_harmonics_db(with_noise(noise_db, rate_hz))
    assert np.nanmedian(found.value) == pytest.approx(noise_db, abs=1.0)


def test_cepstral_peak_falls_as_noise_rises() -> None:
    """Cepstral peak prominence falls with each 5 dB of noise, and its negative rises."""
    peaks = [np.nanmedian(periodicity.cepstral_peak_db(with_noise(noise_db)).value) for noise_db in np.arange(-30.0, 6.0, 5.0)]
    assert all(low < high for high, low in pairwise(peaks))
    found = periodicity.minus_cepstral_peak_db(with_noise(-10.0))
    np.testing.assert_array_equal(found.value, -periodicity.cepstral_peak_db(with_noise(-10.0)).value)


@pytest.mark.parametrize("deviation", [0.003, 0.01, 0.03])
def test_random_periods_have_the_jitter_of_their_spread(deviation: float) -> None:
    """Independent periods with standard deviation s have a local jitter of 2s over the root of pi, to an eighth."""
    periods_s = 0.008 * (1.0 + deviation * np.random.default_rng(2).standard_normal(300))
    found = np.exp(periodicity.jitter_log(pulses(periods_s)).value)
    assert np.nanmedian(found) == pytest.approx(2.0 * deviation / np.sqrt(np.pi), rel=0.125)


def test_what_is_no_voice_has_no_jitter() -> None:
    """Silence and noise have no periods: no value, and nothing raised; a missed pulse isn't jitter."""
    for samples in (np.zeros(RATE_HZ), 0.1 * np.random.default_rng(1).standard_normal(RATE_HZ)):
        found = periodicity.jitter_log(Sound(samples, RATE_HZ))
        assert found.valid.mean() < 0.2
    periods_s = np.full(200, 0.008)
    periods_s[100] = 0.016
    assert np.nanmax(np.exp(periodicity.jitter_log(pulses(periods_s)).value)) < 0.01


def test_stereo_is_read_as_the_mean_of_its_channels() -> None:
    """A voice in both channels reads as it does in one."""
    sound = with_noise(-15.0)
    both = Sound(np.stack([sound.samples, sound.samples], axis=1), RATE_HZ)
    for meter in (periodicity.noise_to_harmonics_db, periodicity.jitter_log):
        np.testing.assert_allclose(meter(both).value, meter(sound).value)
    assert np.nanmedian(periodicity.cepstral_peak_db(both).value) == pytest.approx(
        np.nanmedian(periodicity.cepstral_peak_db(sound).value), abs=0.5
    )


def test_a_short_sound_has_no_harmonicity() -> None:
    """Under ten periods of the floor Praat has no window; the adapter gives an empty contour."""
    assert praat.harmonicity_db(Sound(complex_tone(duration_s=0.15), RATE_HZ), 60.0, 0.02).time_s.size == 0
    assert praat.harmonicity_db(Sound(complex_tone(duration_s=0.18), RATE_HZ), 60.0, 0.02).time_s.size > 0


# -- the sweeps -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 4, 7])
def source(request: pytest.FixtureRequest) -> Source:
    """A synthetic voice."""
    return sources.realise(drawn("voice", "test", request.param, 7), RATE_HZ, {}, SpeechRule(corpus=None))


def swept(name: str, source: Source, span: float) -> Sound:
    """A linear sweep over the whole clip."""
    return BY_NAME[name].manipulate(source, Planned("linear", span, source.start_s, source.end_s))


@pytest.mark.parametrize(("name", "span"), [("breathiness", 18.0), ("breathiness", -30.0), ("hoarseness", 1.2), ("hoarseness", -2.4)])
def test_a_sweep_is_heard_as_planned(name: str, span: float, source: Source) -> None:
    """Meter and witness both move by the plan's sign, the meter by 2/3 of the span to a third."""
    dimension, made = BY_NAME[name], swept(name, source, span)
    heard, seen = (statistics.thirds_contrast(how(made), source.start_s, source.end_s) for how in (dimension.measure, dimension.witness))
    assert heard == pytest.approx(span * 2.0 / 3.0, rel=1.0 / 3.0)
    assert seen * span > 0.0


def test_breath_changes_neither_loudness_nor_brightness(source: Source) -> None:
    """A sweep of 30 dB of breath moves loudness by under 0.8 LU and tilt by under 0.8 dB per octave, before anything is restored."""
    made = swept("breathiness", source, 30.0)
    for meter in (meters.momentary_loudness_lufs, meters.spectral_tilt_db_per_octave):
        assert abs(statistics.mean_contrast(meter(made), source.start_s, source.end_s)) < 0.8


def test_mixing_keeps_the_power() -> None:
    """Harmonics and noise mixed at any ratio have the power of the harmonics alone, whatever the noise's own level."""
    rng = np.random.default_rng(4)
    periodic, noise = 0.2 * np.sin(np.arange(40_000) * 0.1), 7.0 * rng.standard_normal(40_000)
    for ratio_db in (-40.0, -10.0, 0.0, 40.0):
        made = voice.breathed(periodic, noise, np.full(40_000, ratio_db))
        assert np.std(made) == pytest.approx(np.std(periodic), rel=0.02)


@pytest.mark.parametrize(
    ("name", "message"), [("breathiness", "a tone has no breath to sweep"), ("hoarseness", "a tone has no periods to disturb")]
)
def test_what_has_no_voice_is_refused(name: str, message: str) -> None:
    """A tone has neither breath nor glottal periods, and is refused by name."""
    tone = sources.realise(drawn("tone", "test", 0, 7), RATE_HZ, {}, SpeechRule(corpus=None))
    with pytest.raises(Refused, match=message) as caught:
        swept(name, tone, 1.0)
    assert caught.value.reason is Reason.DOES_NOTHING
