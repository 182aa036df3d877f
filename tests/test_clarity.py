"""Clarity: the edge of a spectrum, the low-pass, and sweeps: known answers, and refusals of what a source doesn't have."""

from __future__ import annotations

import numpy as np
import pytest
from test_laws import pair_on, recording
from test_meters import sine, sloped, white

from builder import measure, render
from builder.acoustics import bandwidth, filters
from builder.dimensions import BY_NAME
from builder.errors import Refused
from builder.records import Sound

CLARITY = BY_NAME["clarity"]
CUTOFFS_HZ = (1000.0, 1500.0, 2000.0, 4000.0, 6000.0)


def cut_off(sound: Sound, cutoff_hz: float) -> Sound:
    """A sound with nothing above a frequency."""
    spectrum = np.fft.rfft(sound.samples)
    frequency_hz = np.fft.rfftfreq(len(sound.samples), 1.0 / sound.sample_rate_hz)
    return Sound(np.fft.irfft(np.where(frequency_hz <= cutoff_hz, spectrum, 0.0), len(sound.samples)), sound.sample_rate_hz)


def low_passed(sound: Sound, cutoff_octaves: float) -> Sound:
    """A sound behind the dimension's low-pass at a cutoff that holds still."""
    return filters.low_passed(sound, lambda time_s: np.full_like(time_s, cutoff_octaves), 144.0)


def edge(sound: Sound) -> float:
    """Median edge over time, octaves re 1 kHz."""
    found = bandwidth.upper_edge_octaves(sound)
    assert found.valid.all()
    return float(np.median(found.value))


# -- the edge of a spectrum -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", [16_000, 48_000])
@pytest.mark.parametrize("cutoff_hz", CUTOFFS_HZ)
def test_where_noise_ends_is_read(cutoff_hz: float, sample_rate_hz: int) -> None:
    """White noise with nothing above a frequency reads that frequency, plus half a band: a twelfth of an octave; to a twelfth."""
    found = edge(cut_off(white(1, sample_rate_hz), cutoff_hz))
    assert found - np.log2(cutoff_hz / 1000.0) == pytest.approx(1.0 / 12.0, abs=1.0 / 12.0)


@pytest.mark.parametrize("carrier", [white(2), sloped(-3.0, 2), sloped(-6.0, 2)], ids=["white", "pink", "brown"])
def test_an_octave_of_cutoff_is_an_octave_of_edge(carrier: Sound) -> None:
    """Behind a low-pass the edge moves as the cutoff does, to a tenth, whatever the carrier's own slope."""
    cutoffs = np.arange(0.5, 2.1, 0.5)
    found = np.array([edge(low_passed(carrier, cutoff)) for cutoff in cutoffs])
    slopes = np.diff(found) / np.diff(cutoffs)
    np.testing.assert_allclose(slopes, 1.0, atol=0.1)


def test_the_edge_of_a_steep_low_pass_lies_where_it_has_fallen_by_55_db() -> None:
    """On white noise, whose bands grow by 3 dB per octave: cutoff + (55 dB + the bands' growth) / 144 dB per octave, or near it."""
    for cutoff in (0.0, 1.0, 2.0):
        assert edge(low_passed(white(3), cutoff)) - cutoff == pytest.approx(55.0 / 144.0, abs=0.08)


def test_level_is_no_clarity() -> None:
    """The edge is the same at any level that 16 bit can hold, and along a sweep of level."""
    sound = low_passed(white(4), 1.0)
    louder = filters.scaled_by_db(sound, 20.0)
    np.testing.assert_allclose(bandwidth.upper_edge_octaves(louder).value, bandwidth.upper_edge_octaves(sound).value, atol=1e-9)
    ramp = filters.scaled_by_db(sound, np.linspace(-12.0, 12.0, len(sound.samples)))
    np.testing.assert_allclose(bandwidth.upper_edge_octaves(ramp).value, bandwidth.upper_edge_octaves(sound).value, atol=0.02)


def test_what_has_no_edge_reads_the_highest_band() -> None:
    """Full-band noise reads the highest band under 0.475 of the sample rate, at each rate its own."""
    for sample_rate_hz in (8_000, 16_000, 48_000):
        highest = np.log2(0.475 * sample_rate_hz / 1000.0)
        assert highest - 1.0 / 12.0 <= edge(white(5, sample_rate_hz)) <= highest


def test_a_tone_ends_where_it_is() -> None:
    """The edge of a pure tone is the tone: within a quarter of an octave above it, where its window's skirt has fallen by 55 dB."""
    for frequency_hz in (500.0, 2000.0, 5000.0):
        assert 0.0 < edge(sine(frequency_hz, -20.0)) - np.log2(frequency_hz / 1000.0) < 0.25


def test_a_step_of_cutoff_stays_where_it_is() -> None:
    """A step of cutoff at 1.5 s is read at 1.5 s: the median over 0.3 s doesn't move it by more than 30 ms."""
    made = filters.low_passed(white(6), lambda time_s: np.where(time_s < 1.5, 1.0, 2.0), 144.0)
    found = bandwidth.upper_edge_octaves(made)
    middle = (np.median(found.value[found.time_s < 1.0]) + np.median(found.value[found.time_s > 2.0])) / 2.0
    crossing_s = found.time_s[np.flatnonzero(found.value > middle)[0]]
    assert crossing_s == pytest.approx(1.5, abs=0.03)


# -- the low-pass -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cutoff_octaves", [0.0, 1.0, 2.0])
def test_the_low_pass_falls_by_144_db_per_octave(cutoff_octaves: float) -> None:
    """Far below its cutoff a tone passes, at it loses 6 dB, a third of an octave above it 48 dB."""
    for octaves, wanted_db, tolerance_db in ((-1.0, 0.0, 0.01), (0.0, -6.0, 0.3), (1.0 / 3.0, -48.0, 1.0)):
        tone = sine(1000.0 * 2.0 ** (cutoff_octaves + octaves), -10.0)
        made = low_passed(tone, cutoff_octaves)
        inside = slice(4000, -4000)
        found_db = 20.0 * np.log10(np.std(made.samples[inside]) / np.std(tone.samples[inside]))
        assert found_db == pytest.approx(wanted_db, abs=tolerance_db)


def test_an_open_low_pass_gives_the_samples_back() -> None:
    """A cutoff far beyond the sound's own band changes no sample by more than rounding."""
    sound = white(7)
    np.testing.assert_allclose(low_passed(sound, 6.0).samples, sound.samples, atol=1e-9)


# -- the sweep --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sweep_moves_the_edge_as_planned(sign: int) -> None:
    """On white noise the edge follows the plan to a sixth of an octave at every moment, and sharpness goes along."""
    source = recording(white(8).samples, "noise")
    pair = pair_on(CLARITY, source, 2.0)
    made, flat = render.clip(pair, source, sign), render.sham(pair, source)
    change = measure.measure(made, CLARITY).value - measure.measure(flat, CLARITY).value
    time_s = measure.measure(made, CLARITY).time_s
    np.testing.assert_allclose(change, render.planned(pair, source, sign).at(time_s), atol=1.0 / 6.0)
    sharpness = CLARITY.witness(made)
    third = len(sharpness.value) // 3
    assert sign * (np.mean(sharpness.value[-third:]) - np.mean(sharpness.value[:third])) > 0.1


def test_the_middle_of_every_sweep_is_the_base() -> None:
    """Sham and both clips meet half-way, whatever the span: at the base cutoff of 1.7 kHz."""
    source = recording(white(9).samples, "noise")
    half_s = source.sound.duration_s / 2.0
    for jnds in (1.0, 2.0):
        pair = pair_on(CLARITY, source, jnds)
        for sign in (1, 0, -1):
            found = measure.measure(render.clip(pair, source, sign), CLARITY)
            assert np.interp(half_s, found.time_s, found.value) == pytest.approx(0.8 + 55.0 / 144.0, abs=0.1)


def test_a_dull_source_is_refused() -> None:
    """A source that ends at 3 kHz can't be made clear up to 3.5 kHz, one that ends at 1.4 kHz not even to the middle: out of range."""
    source = recording(cut_off(white(10), 3000.0).samples, "noise")
    with pytest.raises(Refused, match=r"out_of_range: the source reaches up to 3\d\d\d Hz, the sweep needs 3482 Hz"):
        render.clip(pair_on(CLARITY, source, 4.0), source, 1)
    source = recording(cut_off(white(10), 1400.0).samples, "noise")
    with pytest.raises(Refused, match=r"out_of_range: the source reaches up to 1\d\d\d Hz, the sweep needs 1741 Hz"):
        render.sham(pair_on(CLARITY, source, 2.0), source)


def test_a_silent_source_reaches_nowhere() -> None:
    """Of silence nothing reaches up: it's refused, and no warning is raised."""
    source = recording(np.zeros(4000), "noise")
    with pytest.raises(Refused, match="out_of_range: the source reaches nowhere that can be measured, the sweep needs"):
        render.sham(pair_on(CLARITY, source, 2.0), source)


def test_an_own_drift_through_the_base_is_taken_out() -> None:
    """Noise whose own edge falls by half an octave through the base cutoff keeps under half of the fall in its sham."""
    own = filters.low_passed(white(11), lambda time_s: 1.15 - 0.5 * time_s / 3.0, 144.0)
    source = recording(own.samples, "noise")
    flat = render.sham(pair_on(CLARITY, source, 1.0), source)
    falls = [np.mean(contour.value[:60]) - np.mean(contour.value[-60:]) for contour in (CLARITY.measure(own), CLARITY.measure(flat))]
    assert falls[0] == pytest.approx(0.4, abs=0.06)
    assert abs(falls[1]) < 0.5 * falls[0]
