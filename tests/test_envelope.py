"""Spectral envelopes: what is moved by a known factor is measured to have moved by it, at the same pitch."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from builder import sources
from builder.acoustics import audio, envelope, filters, meters, praat, statistics, voice
from builder.dimensions import BY_NAME, Planned
from builder.recipe import SpeechRule
from builder.records import FloatArray, Sound
from builder.synthesis import drawn

RATE_HZ = 16_000
DURATION_S = 3.0


def vowel(number: int = 4, log_scale: object = None, rate_hz: int = RATE_HZ) -> Sound:
    """A synthetic voice of 3 s, its formants scaled over time by 100 ln(factor)."""
    parameters = {**drawn("voice", "test", number, 7).parameters, "duration_s": DURATION_S}
    return audio.at_reference_level(voice.voice(parameters, rate_hz, {} if log_scale is None else {"formants": log_scale}))


def ramp(span: float) -> partial[FloatArray]:
    """A straight sweep over 3 s, about 0."""
    return partial(_ramp, span)


def _ramp(span: float, time_s: FloatArray) -> FloatArray:
    return span * (np.clip(time_s / DURATION_S, 0.0, 1.0) - 0.5)


def contrast(sound: Sound, meter: object) -> float:
    """Last third less first third."""
    return statistics.thirds_contrast(meter(sound), 0.0, DURATION_S)


@pytest.mark.parametrize("span", [-30.0, -12.0, 12.0, 30.0])
@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_shift_reads_the_scale_of_the_tract(number: int, span: float) -> None:
    """A synthetic tract scaled by a known factor reads 2/3 of its span between outer thirds, to a quarter; the witness moves with it."""
    made = vowel(number, ramp(span))
    wanted = span * 2.0 / 3.0
    assert contrast(made, envelope.shift) == pytest.approx(wanted, rel=0.25)
    assert 0.1 < contrast(made, envelope.formant_shift) / wanted < 1.5


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 48_000])
def test_shift_reads_the_same_at_other_rates(rate_hz: int) -> None:
    """From 8 to 48 kHz a sweep of 20 reads 13.3 to a fifth."""
    assert contrast(vowel(4, ramp(20.0), rate_hz), envelope.shift) == pytest.approx(13.3, rel=0.2)


def test_shift_does_not_hear_tilt_or_pitch_or_level() -> None:
    """A voice that gets brighter by 6 dB per octave, higher by 4 semitones or louder by 12 dB moves its formants by under 4 %."""
    parameters = {**drawn("voice", "test", 4, 7).parameters, "duration_s": DURATION_S}
    higher = voice.voice(parameters, RATE_HZ, {"pitch": ramp(4.0)})
    steady = vowel()
    louder = filters.scaled_by_db(steady, _ramp(12.0, np.arange(len(steady.samples)) / RATE_HZ))
    for sound in (filters.tilted(steady, ramp(6.0)), higher, louder):
        assert abs(contrast(sound, envelope.shift)) < 4.0


def test_no_scale_changes_no_sample() -> None:
    """A warp by a factor of 1 gives the samples back, to rounding."""
    sound = vowel()
    np.testing.assert_allclose(envelope.warped(sound, np.zeros_like).samples, sound.samples, atol=1e-12)


@pytest.mark.parametrize("factor", [-12.0, 12.0])
def test_a_warp_moves_known_formants(factor: float) -> None:
    """A vowel warped by a constant factor is the vowel of a tract scaled by it: band levels to 3 dB below 4 kHz, in the median."""
    warped = envelope.warped(vowel(6), partial(np.full_like, fill_value=factor))
    scaled = vowel(6, partial(np.full_like, fill_value=factor))
    used = (meters.THIRD_OCTAVE_HZ > 200.0) & (meters.THIRD_OCTAVE_HZ < 4000.0)
    levels = [np.median(meters.third_octave_levels_db(audio.at_reference_level(sound))[1][used], axis=1) for sound in (warped, scaled)]
    assert np.median(np.abs(levels[0] - levels[1])) < 3.0


def test_a_warp_leaves_pitch_where_it_is() -> None:
    """Envelopes that move by 30 % leave F0 where it was, to 5 cents at every moment."""
    sound = vowel()
    before, after = (meters.f0_semitones(each).value for each in (sound, envelope.warped(sound, ramp(30.0))))
    assert np.nanmax(np.abs(after - before)) < 0.05


def test_an_envelope_lies_on_the_harmonics() -> None:
    """Over a tone with equal harmonics the envelope is flat to 2 dB from the second to the last but one."""
    time_s = np.arange(2 * RATE_HZ) / RATE_HZ
    samples = sum(np.cos(2.0 * np.pi * 200.0 * k * time_s + k**2) for k in range(1, 31))
    _, found = envelope.peak_envelope_db(Sound(0.01 * np.asarray(samples), RATE_HZ))
    frequency_hz = np.linspace(0.0, RATE_HZ / 2.0, found.shape[1])
    inside = (frequency_hz > 400.0) & (frequency_hz < 5800.0)
    assert np.ptp(np.median(found, axis=0)[inside]) < 2.0


def test_bands_of_another_sound_are_taken_on() -> None:
    """White noise given the bands of a voice has its tilt to 0.5 dB per octave; what is too short stays as it is."""
    reference = vowel(0)
    noise = Sound(0.05 * np.random.default_rng(1).standard_normal(len(reference.samples)), RATE_HZ)
    made = envelope.with_bands_of(noise, reference)
    tilts = [np.nanmean(meters.spectral_tilt_db_per_octave(sound).value) for sound in (made, reference)]
    assert tilts[0] == pytest.approx(tilts[1], abs=0.5)
    short = Sound(noise.samples[:100], RATE_HZ)
    assert envelope.with_bands_of(short, reference) is short
    assert envelope.warped(short, np.zeros_like) is short


def test_silence_has_no_formants() -> None:
    """Silence has no value in either meter, and a short sound no frame."""
    for meter in (envelope.shift, envelope.formant_shift):
        assert not meter(Sound(np.zeros(2 * RATE_HZ), RATE_HZ)).valid.any()
        assert meter(Sound(vowel().samples[: RATE_HZ // 5], RATE_HZ)).time_s.size == 0


def test_burg_finds_the_formants_of_a_synthetic_vowel() -> None:
    """First two formants of a man's /ae/ are found to a tenth, and frames are as many as times."""
    parameters = {**drawn("voice", "test", 8, 7).parameters, "group": "man", "vowel": "ae", "f0_hz": 100.0, "tract_scale": 1.0}
    time_s, found = praat.formants_hz(voice.voice(parameters, RATE_HZ, {}), 0.02, 5000.0, 5)
    assert found.shape == (5, len(time_s))
    np.testing.assert_allclose(np.nanmedian(found[:2], axis=1), [660.0, 1720.0], rtol=0.1)


@pytest.mark.parametrize("kind", ["voice"])
def test_a_sweep_of_formants_is_heard_as_planned(kind: str) -> None:
    """The largest sweep of a synthetic voice reads its plan to a fifth and leaves F0 where it was."""
    source = sources.realise(drawn(kind, "test", 4, 7), RATE_HZ, {}, SpeechRule(corpus=None))
    dimension = BY_NAME["formants"]
    made = dimension.manipulate(source, Planned("linear", dimension.max_span[kind], source.start_s, source.end_s))
    heard = statistics.thirds_contrast(dimension.measure(made), source.start_s, source.end_s)
    assert heard == pytest.approx(dimension.max_span[kind] * 2.0 / 3.0, rel=0.2)
    shams = [np.nanmedian(meters.f0_semitones(sound).value) for sound in (made, source.sound)]
    assert shams[0] == pytest.approx(shams[1], abs=0.05)
