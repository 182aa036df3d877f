"""Known answers for depth of modulation, of level and of F0: closed forms on steady carriers, and the sweeps' own plans."""

from __future__ import annotations

import itertools

import metasona
import numpy as np
import pytest

from builder import recipe, sources
from builder.acoustics import audio, meters, modulation
from builder.dimensions import BY_NAME, Dimension, Planned
from builder.errors import Refused
from builder.records import Contour, Sound, Source, SourceSpec
from builder.synthesis import drawn

NO_CORPUS = recipe.SpeechRule(corpus=None)
DEPTHS = (0.1, 0.3, 0.6, 0.9)
AMPLITUDE = {"tremolo": (4.0, 5.3, 6.5), "roughness": (65.0, 70.0, 75.0)}


def carrier(kind: str, sample_rate_hz: int = 16_000, duration_s: float = 3.0) -> Sound:
    """A steady sound: a tone of 500 Hz, a complex tone of 300 Hz, white noise, or noise that falls by 6 dB per octave."""
    n = round(duration_s * sample_rate_hz)
    time_s = np.arange(n) / sample_rate_hz
    if kind == "tone":
        return Sound(0.1 * np.sin(2.0 * np.pi * 500.0 * time_s), sample_rate_hz)
    if kind == "complex":
        return Sound(0.03 * sum(np.sin(2.0 * np.pi * 300.0 * k * time_s) / k for k in range(1, 10)), sample_rate_hz)
    noise = np.random.default_rng(1).standard_normal(n)
    frequency_hz = np.maximum(np.fft.rfftfreq(n, 1.0 / sample_rate_hz), 80.0)
    if kind == "brown":
        noise = np.fft.irfft(np.fft.rfft(noise) / frequency_hz, n)
    return Sound(0.03 * noise / np.std(noise), sample_rate_hz)


def modulated(sound: Sound, depth: float, rate_hz: float) -> Sound:
    """A sound under a gain 1 + m sin."""
    return modulation.amplitude_modulated(sound, np.full(len(sound.samples), 20.0 * np.log10(depth)), rate_hz, 0.2)


def swinging(f0_hz: float, depth_cents: float, rate_hz: float, sample_rate_hz: int = 16_000) -> Sound:
    """A complex tone whose F0 swings by so many cents to either side."""
    time_s = np.arange(3 * sample_rate_hz) / sample_rate_hz
    cycles = np.cumsum(f0_hz * 2.0 ** (depth_cents / 1200.0 * np.sin(2.0 * np.pi * rate_hz * time_s))) / sample_rate_hz
    return Sound(0.03 * sum(np.sin(2.0 * np.pi * k * cycles) / k for k in range(1, 10)), sample_rate_hz)


def synthetic(kind: str, number: int = 0) -> Source:
    """A drawn source."""
    return sources.realise(drawn(kind, "test", number, 7), 16_000, {}, NO_CORPUS)


def first_not_refused(dimension: Dimension, kind: str) -> Source:
    """The first drawn source that the dimension doesn't refuse."""
    for number in itertools.count():
        source = synthetic(kind, number)
        try:
            dimension.manipulate(source, Planned("flat", 0.0, source.start_s, source.end_s))
        except Refused:
            continue
        return source
    raise AssertionError


# -- meters of amplitude ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", [8_000, 16_000, 44_100])
@pytest.mark.parametrize("kind", ["tone", "complex"])
@pytest.mark.parametrize("name", AMPLITUDE)
def test_a_sine_of_depth_m_reads_m(name: str, kind: str, sample_rate_hz: int) -> None:
    """A steady carrier under 1 + m sin reads m at each moment, at any rate of the band: to 2 %."""
    sound = carrier(kind, sample_rate_hz)
    for rate_hz, depth in itertools.product(AMPLITUDE[name], DEPTHS):
        found = BY_NAME[name].measure(modulated(sound, depth, rate_hz))
        assert found.valid.all()
        np.testing.assert_allclose(10.0 ** (found.value / 20.0), depth, rtol=0.02, err_msg=f"{rate_hz} Hz, m = {depth}")


@pytest.mark.parametrize("kind", ["white", "brown"])
@pytest.mark.parametrize("name", AMPLITUDE)
def test_noise_under_a_sine_reads_m(name: str, kind: str) -> None:
    """Noise of any slope under 1 + m sin reads m to 8 % in the median: its own ripple is whitened down to 3 % of m."""
    for depth in DEPTHS:
        found = BY_NAME[name].measure(modulated(carrier(kind), depth, AMPLITUDE[name][1]))
        assert np.median(10.0 ** (found.value / 20.0)) == pytest.approx(depth, rel=0.08)
    assert np.median(BY_NAME[name].measure(carrier(kind)).value) < 20.0 * np.log10(0.04)


@pytest.mark.parametrize("name", AMPLITUDE)
def test_a_steady_tone_has_no_depth(name: str) -> None:
    """Without modulation the depth is the floor of -40 dB, which is a value and no gap."""
    np.testing.assert_array_equal(BY_NAME[name].measure(carrier("tone")).value, modulation.MIN_DEPTH_DB)


@pytest.mark.parametrize(("name", "other"), [("tremolo", 70.0), ("roughness", 5.0), ("tremolo", 15.0), ("roughness", 25.0)])
def test_each_depth_is_of_its_own_rates(name: str, other: float) -> None:
    """Modulation at another rate, half deep, reads under 5 %."""
    assert np.max(BY_NAME[name].measure(modulated(carrier("tone"), 0.5, other)).value) < 20.0 * np.log10(0.05)


@pytest.mark.parametrize("name", AMPLITUDE)
def test_depth_does_not_hear_level(name: str) -> None:
    """A fade of 12 dB over 3 s under the modulation leaves the depth where it was, to 0.3 dB."""
    sound = modulated(carrier("tone"), 0.5, AMPLITUDE[name][1])
    faded = Sound(sound.samples * 10.0 ** (np.linspace(0.0, -12.0, len(sound.samples)) / 20.0), 16_000)
    np.testing.assert_allclose(BY_NAME[name].measure(faded).value, BY_NAME[name].measure(sound).value, atol=0.3)


@pytest.mark.parametrize("name", AMPLITUDE)
def test_two_channels_read_as_one(name: str) -> None:
    """The same sound in two channels has the same depth, by measure and witness."""
    sound = modulated(carrier("white"), 0.5, AMPLITUDE[name][1])
    both = Sound(np.stack([sound.samples, sound.samples], axis=1), 16_000)
    for how in (BY_NAME[name].measure, BY_NAME[name].witness):
        np.testing.assert_allclose(how(both).value, how(sound).value, rtol=1e-6)


def test_depth_of_power_swing_solves_its_formula() -> None:
    """The power of a gain 1 + m sin swings by 2 m / (1 + m^2/2) about its mean: solved for m, and bounded beyond."""
    depth = np.linspace(0.0, 1.0, 101)
    np.testing.assert_allclose(modulation.depth_of_power_swing(2.0 * depth / (1.0 + depth**2 / 2.0)), depth, atol=1e-9)
    assert modulation.depth_of_power_swing(np.array([9.0]))[0] == pytest.approx(np.sqrt(2.0))


@pytest.mark.parametrize(("name", "how"), [("tremolo", modulation.peak_to_trough), ("roughness", modulation.envelope_ripple)])
def test_hilbert_witnesses_read_m_on_a_tone(name: str, how: object) -> None:
    """By Hilbert's envelope a tone under 1 + m sin has m within 10 %, and each deeper modulation reads deeper on every carrier."""
    for kind in ("tone", "complex", "white", "brown"):
        read = [np.median(BY_NAME[name].witness(modulated(carrier(kind), depth, AMPLITUDE[name][1])).value) for depth in DEPTHS]
        assert BY_NAME[name].witness is not how
        assert np.all(np.diff(read) > 0.0)
        if kind == "tone":
            np.testing.assert_allclose(read, DEPTHS, rtol=0.1)


def test_roughness_rises_with_daniel_and_webers_asper() -> None:
    """Each step of 3 dB in depth raises Daniel & Weber's roughness, on noise and on a tone: the unit goes the way of the sensation."""
    for kind in ("white", "complex"):
        asper = []
        for depth_db in (-12.0, -9.0, -6.0, -3.0):
            made = modulated(carrier(kind, 48_000, 0.3), 10.0 ** (depth_db / 20.0), 70.0)
            pressure_pa = made.samples / np.std(made.samples) * 2e-5 * 10.0 ** (65.0 / 20.0)
            asper.append(float(np.median(metasona.roughness_daniel_weber(pressure_pa, 48_000).roughness_asper)))
        assert np.all(np.diff(asper) > 0.0), asper


# -- meters of F0 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", [16_000, 44_100])
@pytest.mark.parametrize("f0_hz", [90.0, 200.0, 350.0])
def test_a_swing_of_f0_reads_its_cents(f0_hz: float, sample_rate_hz: int) -> None:
    """F0 that swings by d cents reads d to 5 % (Praat's window evens out a little), and by swift-f0 to 15 % or 10 cents."""
    for rate_hz, depth in itertools.product((5.0, 6.5), (50.0, 130.0, 250.0)):
        sound = swinging(f0_hz, depth, rate_hz, sample_rate_hz)
        measured, witnessed = BY_NAME["vibrato"].measure(sound), BY_NAME["vibrato"].witness(sound)
        np.testing.assert_allclose(measured.value[measured.valid], depth, rtol=0.05)
        assert np.nanmedian(witnessed.value) == pytest.approx(depth, rel=0.15, abs=10.0)


def test_a_steady_f0_does_not_swing() -> None:
    """A tone without vibrato, and one that glides by 6 semitones a second, swing by under 2 cents."""
    time_s = np.arange(48_000) / 16_000
    cycles = np.cumsum(150.0 * 2.0 ** (0.5 * time_s)) / 16_000
    glide = Sound(0.03 * sum(np.sin(2.0 * np.pi * k * cycles) / k for k in range(1, 10)), 16_000)
    for sound in (carrier("complex"), glide):
        assert np.nanmax(BY_NAME["vibrato"].measure(sound).value) < 2.0


def test_gaps_are_left_out_or_told() -> None:
    """In a contour with gaps the swing is right wherever one is told; where too little of a window is left, none is."""
    time_s = np.arange(300) * 0.01
    value = 130.0 * np.sin(2.0 * np.pi * 5.5 * time_s) + 4000.0
    value[(time_s % 0.5) < 0.15] = np.nan
    value[(time_s > 1.0) & (time_s < 1.7)] = np.nan
    found = modulation.swing_of_f0(Contour(time_s, value), (3.5, 8.5), 0.6)
    assert found.valid.mean() > 0.3
    np.testing.assert_allclose(found.value[found.valid], 130.0, atol=1.0)
    assert not found.valid[(found.time_s > 1.0) & (found.time_s < 1.7)].any()


# -- sweeps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("name", "kind"), [("tremolo", "tone"), ("tremolo", "noise"), ("roughness", "noise"), ("vibrato", "voice")])
def test_a_sweep_hits_its_plan(name: str, kind: str, sign: float) -> None:
    """As measured, a sweep over the whole span is the plan about the base: the median error is under a twelfth of the span."""
    dimension, base = BY_NAME[name], {"tremolo": -12.0, "roughness": -7.0, "vibrato": 130.0}[name]
    source = first_not_refused(dimension, kind)
    planned = Planned("linear", sign * dimension.max_span[kind], source.start_s, source.end_s)
    found = dimension.measure(dimension.manipulate(source, planned))
    error = found.value - base - planned.seen_at(found.time_s, dimension.window_s)
    assert np.nanmedian(np.abs(error)) < dimension.max_span[kind] / 12.0


def test_a_division_holds_power_or_amplitude() -> None:
    """Divided by the root of its mean square a modulated tone keeps its power over whole cycles; undivided, its mean envelope."""
    tone = carrier("tone", duration_s=2.0)
    depth_db = np.full(len(tone.samples), -3.0)
    kept = modulation.amplitude_modulated(tone, depth_db, 5.0, 0.0).samples
    assert np.mean(kept**2) == pytest.approx(np.mean(tone.samples**2), rel=1e-3)
    envelope, _ = modulation.hilbert_envelope(modulation.amplitude_modulated(tone, depth_db, 5.0, 0.0, held=0.0), 400.0)
    plain, _ = modulation.hilbert_envelope(tone, 400.0)
    assert np.mean(envelope) == pytest.approx(np.mean(plain), rel=1e-2)


def test_modulation_keeps_parts_in_step() -> None:
    """Both channels and all parts of a sound get the same gain: the parts still add up."""
    samples = np.random.default_rng(3).standard_normal((8000, 2))
    mixed = Sound(samples, 16_000, {"a": 0.3 * samples, "b": 0.7 * samples})
    made = modulation.amplitude_modulated(mixed, np.full(8000, -6.0), 5.0, 0.1)
    np.testing.assert_allclose(made.parts["a"] + made.parts["b"], made.samples, atol=1e-12)


@pytest.mark.parametrize("name", ["tremolo", "roughness", "vibrato"])
def test_rate_and_phase_are_the_sources_own(name: str) -> None:
    """Two renders of a source are equal, and the sham of a source with another seed is another."""
    dimension = BY_NAME[name]
    source = first_not_refused(dimension, "tone")
    flat = Planned("flat", 0.0, source.start_s, source.end_s)
    other = Source(source.spec, source.sound, source.start_s, source.end_s, source.seed + 1, source.controls, source.synthesise)
    np.testing.assert_array_equal(dimension.manipulate(source, flat).samples, dimension.manipulate(source, flat).samples)
    assert np.max(np.abs(dimension.manipulate(other, flat).samples - dimension.manipulate(source, flat).samples)) > 0.001


def test_low_voices_are_not_made_rough() -> None:
    """A voice under 180 Hz is refused with its F0; a noise, where some frames look voiced by chance, never is."""
    low = next(source for source in (synthetic("voice", n) for n in itertools.count()) if source.spec.parameters["group"] == "man")
    flat = Planned("flat", 0.0, low.start_s, low.end_s)
    with pytest.raises(Refused, match=r"out_of_range: a median F0 of 1\d\d Hz, at least 180 Hz is needed|of 9\d Hz"):
        BY_NAME["roughness"].manipulate(low, flat)
    for number in range(8):
        BY_NAME["roughness"].manipulate(synthetic("noise", number), flat)


def test_what_has_no_f0_has_no_vibrato() -> None:
    """Synthesis without F0 does nothing; a recording of noise is unvoiced."""
    noise = synthetic("noise")
    flat = Planned("flat", 0.0, noise.start_s, noise.end_s)
    with pytest.raises(Refused, match="does_nothing: a noise has no F0 to swing"):
        BY_NAME["vibrato"].manipulate(noise, flat)
    spec = SourceSpec("speech", "planted", {}, "nobody", None, None, "CC0-1.0", "made in a test")
    recorded = Source(spec, audio.at_reference_level(carrier("white")), 0.0, 3.0, 1)
    with pytest.raises(Refused, match=r"unvoiced: 0\.\d\d s of F0, at least 0\.5 s are needed"):
        BY_NAME["vibrato"].manipulate(recorded, flat)


def test_a_recording_is_made_monotonous_first() -> None:
    """A recording whose F0 wanders by +-3 semitones at 4 Hz is left with the sham's 130 cents alone, at the sham's rate."""
    spec = SourceSpec("speech", "planted", {}, "nobody", None, None, "CC0-1.0", "made in a test")
    source = Source(spec, audio.at_reference_level(swinging(200.0, 300.0, 4.0)), 0.0, 3.0, 1)
    made = BY_NAME["vibrato"].manipulate(source, Planned("flat", 0.0, 0.0, 3.0, movement=0.0))
    found = BY_NAME["vibrato"].measure(made)
    assert np.nanmedian(found.value) == pytest.approx(130.0, rel=0.1)
    assert np.nanmedian(meters.f0_semitones(made).value) == pytest.approx(12.0, abs=1.0)
