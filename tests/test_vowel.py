"""Vowels held out of real syllables: pitch as asked, one timbre throughout, no clicks, the same samples every time."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from builder import recipe, sources
from builder.acoustics import meters, periodicity, vowel
from builder.acoustics.voice import voice
from builder.errors import Refused
from builder.records import Reason, Sound
from builder.synthesis import drawn

RATE_HZ = 16_000
HELD = {"duration_s": 3.0, "seed": 5, "jitter": 0.003, "drift_semitones": 0.0}


def syllable(f0_hz: float = 140.0, glide: float = 0.0, duration_s: float = 0.25) -> Sound:
    """A short synthetic vowel whose formants move by `glide` % from end to end."""
    parameters = {**drawn("voice", "test", 1, 7).parameters, "f0_hz": f0_hz, "duration_s": duration_s, "aspiration_db": -40.0}
    moving = {"formants": lambda time_s: glide * (time_s / duration_s - 0.5)}
    return voice(parameters, RATE_HZ, moving if glide else {})


def contrast(values: np.ndarray) -> float:
    """Mean of the last third less that of the first."""
    third = len(values) // 3
    return float(np.nanmean(values[-third:]) - np.nanmean(values[:third]))


@pytest.mark.parametrize("f0_hz", [95.0, 140.0, 260.0])
def test_pitch_is_obeyed_to_a_few_cents(f0_hz: float) -> None:
    """A vowel asked to glide by 4 semitones glides by 4 semitones, about the F0 of its syllable, to 10 cents at each moment."""
    held = vowel.Vowel(syllable(f0_hz))
    made = held.sustained({**HELD, "jitter": 0.0}, {"pitch": lambda time_s: 4.0 * (time_s / 3.0 - 0.5)})
    found = meters.f0_semitones(made)
    inside = (found.time_s > 0.1) & (found.time_s < 2.9)
    wanted = 12.0 * np.log2(held.f0_hz / 100.0) + 4.0 * (found.time_s / 3.0 - 0.5)
    assert found.valid[inside].mean() > 0.98
    np.testing.assert_allclose(found.value[inside & found.valid], wanted[inside & found.valid], atol=0.1)
    assert held.f0_hz == pytest.approx(f0_hz, rel=0.01)


def test_the_same_parameters_make_the_same_vowel() -> None:
    """Samples are repeated to the bit, also after others were made, and another seed makes others."""
    held = vowel.Vowel(syllable())
    first = held.sustained(HELD, {}).samples
    held.sustained(HELD, {"hoarseness": lambda time_s: time_s})
    np.testing.assert_array_equal(held.sustained(HELD, {}).samples, first)
    np.testing.assert_array_equal(vowel.Vowel(syllable()).sustained(HELD, {}).samples, first)
    assert not np.array_equal(held.sustained({**HELD, "seed": 6}, {}).samples, first)


def test_a_vowel_has_one_timbre() -> None:
    """Out of a syllable whose formants move by 30 % comes a vowel whose tilt, formants and level hold still at every moment."""
    made = vowel.Vowel(syllable(glide=30.0)).sustained(HELD, {})
    level, tilt = meters.frame_level_db(made).value, meters.spectral_tilt_db_per_octave(made).value
    assert np.std(level[5:-5]) < 0.2
    assert np.nanstd(tilt[5:-5]) < 0.3


def test_periods_are_laid_without_clicks() -> None:
    """No sample jumps further from its neighbour than in the syllable that the vowel is made of, at the same level."""
    spoken = syllable()
    made = vowel.Vowel(spoken).sustained(HELD, {}).samples[RATE_HZ // 10 : -RATE_HZ // 10]
    steepest = np.max(np.abs(np.diff(spoken.samples))) / np.std(spoken.samples)
    assert np.max(np.abs(np.diff(made))) / np.std(made) < 1.5 * steepest


def test_hoarseness_scales_the_jitter() -> None:
    """A rise of ln 4 over the vowel, in the same deviations, raises measured jitter by about a factor of 4."""
    held = vowel.Vowel(syllable())
    jitters = [
        np.nanmean(periodicity.jitter_log(held.sustained(HELD, {"hoarseness": partial(np.full_like, fill_value=log_factor)})).value)
        for log_factor in (np.log(2.0), np.log(8.0))
    ]
    assert jitters[1] - jitters[0] == pytest.approx(np.log(4.0), abs=0.2)


def test_breath_takes_the_place_of_harmonics() -> None:
    """Noise from -30 to 0 dB re the harmonics is heard as a rise of noise, at the same level to 1 dB, whatever its ratio."""
    made = vowel.Vowel(syllable()).sustained({**HELD, "jitter": 0.0005}, {"breathiness": lambda time_s: -30.0 + 10.0 * time_s})
    found = periodicity.noise_to_harmonics_db(made)
    assert contrast(found.value) == pytest.approx(20.0, abs=4.0)
    assert abs(contrast(meters.momentary_loudness_lufs(made).value)) < 1.0


def test_breath_has_the_spectrum_of_the_voice() -> None:
    """Noise alone has the tilt of the voice alone to 1 dB per octave, where harmonics are close enough to fill the bands."""
    held = vowel.Vowel(syllable(95.0))
    tilts = [
        np.nanmedian(
            meters.spectral_tilt_db_per_octave(held.sustained(HELD, {"breathiness": partial(np.full_like, fill_value=ratio)})).value
        )
        for ratio in (-80.0, 80.0)
    ]
    assert tilts[0] == pytest.approx(tilts[1], abs=1.0)


def test_a_short_or_voiceless_syllable_is_refused() -> None:
    """Noise has no periods, 35 ms too few: both are refused by name and number."""
    hiss = Sound(0.1 * np.random.default_rng(1).standard_normal(4000), RATE_HZ)
    with pytest.raises(Refused, match=r"not_repeatable: \d+ periods of F0, at least 7 are needed") as caught:
        vowel.Vowel(hiss)
    assert caught.value.reason is Reason.NOT_REPEATABLE
    with pytest.raises(Refused, match="periods of F0, at least 7 are needed"):
        vowel.Vowel(syllable(100.0, duration_s=0.035))


def test_a_voice_that_wobbles_too_fast_is_refused() -> None:
    """Where F0 moves by 40 % within every 80 ms there is no steady stretch, and the refusal says so."""
    parameters = {**drawn("voice", "test", 1, 7).parameters, "f0_hz": 110.0, "duration_s": 0.3}
    wobbling = voice(parameters, RATE_HZ, {"pitch": lambda time_s: 3.0 * np.sin(2.0 * np.pi * 14.0 * time_s)})
    with pytest.raises(Refused, match="no 80 ms with at least 5 steady periods"):
        vowel.Vowel(wobbling)


def test_real_vowels_hold_still(real: sources.Gathered, default_recipe: recipe.Recipe) -> None:
    """Of a dozen real vowels all but two hold level to 0.3 dB and tilt to 0.5 dB per octave (standard deviations)."""
    steady, tried = 0, 0
    for spec in real.by_kind["vowels"][::18][:12]:
        try:
            sound = sources.realise(spec, RATE_HZ, real.corpora, default_recipe.speech).sound
        except Refused:
            continue
        tried += 1
        level, tilt = meters.frame_level_db(sound).value[10:-10], meters.spectral_tilt_db_per_octave(sound).value[10:-10]
        steady += bool(np.std(level) < 0.3 and np.nanstd(tilt) < 0.5)
    assert tried >= 9
    assert steady >= tried - 2
