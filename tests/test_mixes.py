"""Known answers for ratios of parts, for what noise, room and bend add, and for the blind meters that hear it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from builder.acoustics import audio, blind, curves, meters, mixing, statistics, voice
from builder.dimensions import BY_NAME, Planned
from builder.errors import Refused
from builder.records import Contour, FloatArray, Sound, Source, SourceSpec

RATE_HZ = 16_000
NAMES = ("noise", "reverberation", "distortion")
MIXES = {
    "noise": ("signal", "noise", -12.0),
    "reverberation": ("direct", "reverberant", -9.0),
    "distortion": ("signal", "distortion", -20.0),
}


def sine(frequency_hz: float, level_db: float = -20.0, duration_s: float = 3.0, sample_rate_hz: int = RATE_HZ) -> FloatArray:
    """A sine at an RMS level."""
    time_s = np.arange(round(duration_s * sample_rate_hz)) / sample_rate_hz
    return np.sqrt(2.0) * 10.0 ** (level_db / 20.0) * np.sin(2.0 * np.pi * frequency_hz * time_s)


def white(seed: int, level_db: float = -20.0, duration_s: float = 3.0) -> FloatArray:
    """White noise at an RMS level."""
    samples = np.random.default_rng(seed).standard_normal(round(duration_s * RATE_HZ))
    return samples / np.std(samples) * 10.0 ** (level_db / 20.0)


def harmonic(f0_hz: float = 160.0, duration_s: float = 3.0) -> FloatArray:
    """Twenty harmonics that fall by 6 dB per octave, at -28 dB RMS."""
    samples = np.sum([sine(f0_hz * n, -20.0 * np.log10(n), duration_s) for n in range(1, 21)], axis=0)
    return samples / np.std(samples) * 10.0 ** (-28.0 / 20.0)


def row(rate_hz: float = 4.0) -> FloatArray:
    """Thirteen raised-cosine bursts of pink noise, half an interval long each, at about -28 LUFS."""
    duration_s = voice.row_duration_s(rate_hz, 13, 0.5)
    made = voice.pulses({"rate_hz": rate_hz, "duty": 0.5, "carrier_hz": None, "duration_s": duration_s, "seed": 3}, RATE_HZ, {})
    return audio.at_reference_level(made).samples


def source_of(samples: FloatArray, kind: str = "speech") -> Source:
    """Samples as a recording."""
    spec = SourceSpec(kind, "made", {}, None, None, None, "CC0-1.0", "made in a test")
    sound = audio.faded(Sound(samples, RATE_HZ))
    return Source(spec, sound, 0.0, sound.duration_s, 5)


# -- the ratio of parts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", [8_000, 16_000, 22_050, 48_000])
@pytest.mark.parametrize("ratio_db", [-30.0, 0.0, 12.0])
def test_a_ratio_of_sines_is_their_difference_in_level(ratio_db: float, sample_rate_hz: int) -> None:
    """Two sines at known levels: the ratio is the difference in every window, at any rate, in mono and in stereo."""
    one, other = sine(500.0, -20.0, 2.0, sample_rate_hz), sine(1300.0, -20.0 + ratio_db, 2.0, sample_rate_hz)
    for shaped in (lambda part: part, lambda part: np.stack([part, 0.5 * part], axis=1)):
        parts = {"signal": shaped(one), "noise": shaped(other)}
        found = mixing.ratio_db(Sound(parts["signal"] + parts["noise"], sample_rate_hz, parts), "noise", "signal")
        np.testing.assert_allclose(found.value, ratio_db, atol=0.05)
        assert found.time_s[0] == pytest.approx(0.2, abs=0.001)
        np.testing.assert_allclose(np.diff(found.time_s), 0.05, atol=0.001)


def test_pauses_of_the_signal_do_not_count() -> None:
    """In a signal that is there half of the time the ratio is that of its bursts; where it's away for long there is none."""
    on = (np.arange(3 * RATE_HZ) // (RATE_HZ // 10)) % 2 == 0
    on[2 * RATE_HZ :] = False
    parts = {"signal": sine(500.0) * on, "noise": sine(1300.0, -30.0)}
    found = mixing.ratio_db(Sound(sum(parts.values()), RATE_HZ, parts), "noise", "signal")
    early, late = found.time_s < 1.7, found.time_s > 2.3
    np.testing.assert_allclose(found.value[early], -10.0, atol=0.7)
    assert not found.valid[late].any()
    assert found.counted is not None
    assert not found.counted[late].any()


def test_without_parts_there_is_no_ratio() -> None:
    """A sound without the parts, or shorter than a window, gives an empty contour; a silent part gives no value."""
    one = sine(500.0)
    assert mixing.ratio_db(Sound(one, RATE_HZ), "noise", "signal").value.size == 0
    assert mixing.ratio_db(Sound(one, RATE_HZ, {"signal": one}), "noise", "signal").value.size == 0
    short = one[: round(0.39 * RATE_HZ)]
    assert mixing.ratio_db(Sound(short, RATE_HZ, {"signal": short, "noise": short}), "noise", "signal").value.size == 0
    for silent in ("signal", "noise"):
        parts = {"signal": one, "noise": one, silent: np.zeros_like(one)}
        assert not mixing.ratio_db(Sound(one, RATE_HZ, parts), "noise", "signal").valid.any()


# -- sweeps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", curves.CURVES)
@pytest.mark.parametrize("name", NAMES)
def test_the_ratio_is_the_base_and_the_plan(name: str, curve: str) -> None:
    """On a row of bursts each sweep's parts add up to it, and their ratio is the base and the planned curve, as the window sees it."""
    dimension, source = BY_NAME[name], source_of(row())
    under, over, base_db = MIXES[name]
    flat = dimension.measure(dimension.manipulate(source, Planned("flat", 0.0, source.start_s, source.end_s)))
    for sign in (1.0, -1.0):
        planned = Planned(curve, sign * 9.0, source.start_s, source.end_s)
        made = dimension.manipulate(source, planned)
        assert set(made.parts) == {under, over}
        np.testing.assert_allclose(made.parts[under] + made.parts[over], made.samples, atol=1e-12)
        found = dimension.measure(made)
        fitted, r_squared = statistics.fit(found.value - flat.value, planned.seen_at(found.time_s, dimension.window_s))
        assert fitted == pytest.approx(1.0, abs=0.1)
        assert r_squared > 0.9
    assert np.nanmean(flat.value) == pytest.approx(base_db, abs=0.6)
    assert abs(statistics.thirds_contrast(flat, source.start_s, source.end_s)) < 1.0


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_adds_the_same_and_meets_in_the_middle(name: str) -> None:
    """Both clips and the sham hold the same two sounds but for their gains; the ratio moves by the plan, and not at mid-course."""
    dimension, source = BY_NAME[name], source_of(row())
    under, over, _ = MIXES[name]
    shams = dimension.manipulate(source, Planned("flat", 0.0, source.start_s, source.end_s)).parts
    for sign in (1.0, -1.0):
        parts = dimension.manipulate(source, Planned("linear", sign * 9.0, source.start_s, source.end_s)).parts
        there = (np.abs(shams[over]) > 1e-4) & (np.abs(shams[under]) > 1e-4)
        change_db = 20.0 * np.log10((parts[over][there] / shams[over][there]) / (parts[under][there] / shams[under][there]))
        time_s = np.flatnonzero(there) / RATE_HZ
        np.testing.assert_allclose(change_db, sign * 9.0 * (time_s / source.end_s - 0.5), atol=1e-6)


def test_a_fading_signal_is_flattened_before_noise() -> None:
    """Of a signal that fades by 9 dB the sham of noise holds the ratio still, by raising the signal and not by fading the noise."""
    source = source_of(harmonic() * 10.0 ** (np.linspace(4.5, -4.5, 3 * RATE_HZ) / 20.0))
    made = BY_NAME["noise"].manipulate(source, Planned("flat", 0.0, source.start_s, source.end_s))
    assert abs(statistics.thirds_contrast(BY_NAME["noise"].measure(made), source.start_s, source.end_s)) < 0.5
    thirds = [10.0 * np.log10(np.mean(part**2)) for part in np.split(made.parts["noise"], 3)]
    assert thirds[2] - thirds[0] == pytest.approx(0.0, abs=0.7)


def test_loudness_is_held_in_the_shape_of_the_sweep() -> None:
    """A linear change of level is taken back by a line; a plan that stands still takes nothing back."""
    samples = white(1)
    time_s = np.arange(len(samples)) / RATE_HZ
    louder = Sound(samples * 10.0 ** (2.0 * (time_s - 1.5) / 20.0), RATE_HZ)
    held = mixing.loudness_held(louder, Sound(samples, RATE_HZ), lambda at_s: at_s - 1.5, 0.0, 3.0)
    change_db = 20.0 * np.log10(np.abs(held.samples[samples != 0.0] / samples[samples != 0.0]))
    assert np.max(np.abs(change_db)) < 0.25
    still = mixing.loudness_held(louder, Sound(samples, RATE_HZ), np.zeros_like, 0.0, 3.0)
    np.testing.assert_array_equal(still.samples, louder.samples)


@pytest.mark.parametrize("name", NAMES)
def test_under_400_ms_there_is_no_ratio_to_sweep(name: str) -> None:
    """A source that is shorter than the window is refused with both figures."""
    source = source_of(sine(500.0, duration_s=0.3))
    with pytest.raises(Refused, match=r"too_short: 0\.300 s, at least 0\.4 s are needed for a ratio of parts"):
        BY_NAME[name].manipulate(source, Planned("linear", 9.0, 0.0, 0.3))


def test_silence_cannot_be_mixed() -> None:
    """Where one of the parts is silent nothing can be levelled, and the sweep is refused by the names of the parts."""
    source = source_of(sine(500.0))
    with pytest.raises(Refused, match=r"unmeasurable: nowhere in 3\.00 s are signal and noise both heard"):
        mixing.Mix("signal", "noise", -12.0).swept(source, np.zeros_like, added=lambda sound: Sound(np.zeros_like(sound.samples), RATE_HZ))


# -- what is added ----------------------------------------------------------------------------------------------------


def test_noise_has_the_colour_of_its_signal() -> None:
    """On pink noise, third-octave levels of the added noise are the signal's to 2 dB; of a voice, it has the RMS and no harmonics."""
    pink = voice.noise({"slope_db_per_octave": -3.0, "low_hz": 80.0, "high_hz": 7000.0, "duration_s": 4.0, "seed": 1}, RATE_HZ, {})
    levels = [meters.third_octave_levels_db(sound)[1].mean(axis=1) for sound in (pink, mixing.shaped_noise(pink, 7))]
    used = (meters.THIRD_OCTAVE_HZ > 150.0) & (meters.THIRD_OCTAVE_HZ < 6000.0)
    np.testing.assert_allclose(levels[1][used], levels[0][used], atol=2.0)
    tone = Sound(harmonic(), RATE_HZ)
    noise = mixing.shaped_noise(tone, 7)
    assert np.std(noise.samples) == pytest.approx(np.std(tone.samples))
    assert blind.noise_floor_db(tone).value.max() < -25.0
    assert blind.noise_floor_db(noise).value.min() > 0.0
    assert not np.array_equal(noise.samples, mixing.shaped_noise(tone, 8).samples)
    np.testing.assert_array_equal(noise.samples, mixing.shaped_noise(tone, 7).samples)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_click_in_a_room_decays_by_60_db_in_its_time(seed: int) -> None:
    """Backward integration of a click's field falls by 5 to 25 dB as fast as 60 dB in 0.5 to 0.7 s, and what is long gone is silent."""
    click = np.zeros(2 * RATE_HZ)
    click[0] = 1.0
    field = mixing.reverberant_field(Sound(click, RATE_HZ), seed).samples
    left_db = 10.0 * np.log10(np.cumsum(field[::-1] ** 2)[::-1] / np.sum(field**2) + 1e-20)
    fall_s = (np.argmax(left_db < -25.0) - np.argmax(left_db < -5.0)) / RATE_HZ
    assert 0.45 <= 3.0 * fall_s <= 0.75
    assert np.max(np.abs(field[RATE_HZ:])) < 1e-9


def test_a_field_is_there_from_the_start() -> None:
    """Of steady noise the first 100 ms of the field are as strong as any: the room rings as if the sound had gone on before."""
    field = mixing.reverberant_field(Sound(white(1), RATE_HZ), 4).samples
    power = (field**2).reshape(30, -1).mean(axis=1)
    assert 10.0 * np.log10(power[0] / power.mean()) == pytest.approx(0.0, abs=3.0)


def test_a_bend_makes_odd_harmonics_and_nothing_folds() -> None:
    """Products of a sine at 1.1 kHz are its odd harmonics, hardly any fundamental, and none folds back from above 8 kHz."""
    made = mixing.distortion_products(Sound(sine(1100.0), RATE_HZ)).samples[RATE_HZ : 2 * RATE_HZ]
    level_db = 20.0 * np.log10(np.abs(np.fft.rfft(made)) / len(made) + 1e-12)
    strongest = level_db.max()
    assert np.argmax(level_db) == 3300
    assert level_db[1100] < strongest - 40.0
    for folded_hz in (16_000 - 9900, 16_000 - 12_100, 2200, 4400):
        assert level_db[folded_hz] < strongest - 60.0


@pytest.mark.parametrize("level_db", [-50.0, -20.0])
def test_quiet_is_as_distorted_as_loud(level_db: float) -> None:
    """Products scale with the sound: their level under it is the same 30 dB further down."""
    loud, now = (mixing.distortion_products(Sound(sine(700.0, level), RATE_HZ)).samples for level in (-20.0, level_db))
    np.testing.assert_allclose(now * 10.0 ** ((-20.0 - level_db) / 20.0), loud, atol=1e-5)


def test_products_are_uncorrelated_with_the_sound() -> None:
    """What a bend adds to a voice has next to no part of the voice in it."""
    tone = harmonic()
    products = mixing.distortion_products(Sound(tone, RATE_HZ)).samples
    assert abs(np.corrcoef(tone, products)[0, 1]) < 0.1


# -- blind meters -----------------------------------------------------------------------------------------------------


def middle(contour: Contour) -> float:
    """Median over a sound."""
    return float(np.nanmedian(contour.value))


@pytest.mark.parametrize("f0_hz", [110.0, 160.0, 290.0])
def test_the_floor_reads_the_noise_between_harmonics(f0_hz: float) -> None:
    """Harmonics in noise of their colour at -24 to 0 dB: the blind floor reads the ratio to 1.5 dB, and ends at 13 dB."""
    tone = Sound(harmonic(f0_hz), RATE_HZ)
    noise = mixing.shaped_noise(tone, 7).samples
    ratios = np.array([-24.0, -18.0, -12.0, -6.0, 0.0])
    found = [middle(blind.noise_floor_db(Sound(tone.samples + noise * 10.0 ** (ratio / 20.0), RATE_HZ))) for ratio in ratios]
    np.testing.assert_allclose(found, ratios, atol=1.5)
    assert blind.noise_floor_db(Sound(noise, RATE_HZ)).value.max() <= 10.0 * np.log10(1.0 / 0.05) + 0.1


def test_decay_reads_the_room_and_not_the_steady() -> None:
    """A row of bursts in rooms of -18 to 0 dB: slower decay at each step; a steady tone doesn't decay and has no value."""
    dry = row()
    field = mixing.reverberant_field(Sound(dry, RATE_HZ), 3).samples
    field = field / np.std(field) * np.std(dry)
    ratios = np.array([-18.0, -12.0, -6.0, 0.0])
    found = [middle(blind.decay_db(Sound(dry + field * 10.0 ** (ratio / 20.0), RATE_HZ))) for ratio in ratios]
    assert np.all(np.diff(found) > 2.0), found
    np.testing.assert_allclose(found, ratios, atol=6.0)
    assert not blind.decay_db(Sound(sine(500.0), RATE_HZ)).valid.any()


def test_decay_of_a_known_slope() -> None:
    """Harmonics that fall by 100 dB/s read the scale's offset; half as fast reads 6.02 dB times the scale more."""
    time_s = np.arange(4 * RATE_HZ) / RATE_HZ
    carrier = np.sum([sine(200.0 * n, duration_s=4.0) for n in range(1, 20)], axis=0)
    for fall_db_per_s, slower_db in ((100.0, 0.0), (50.0, 6.02)):
        found = blind.decay_db(Sound(0.2 * carrier * 10.0 ** (-fall_db_per_s * np.mod(time_s, 0.5) / 20.0), RATE_HZ))
        assert middle(found) == pytest.approx(blind.DECAY_OFFSET_DB + blind.DECAY_SCALE * slower_db, abs=0.05)


def test_flat_tops_of_sine_and_square() -> None:
    """A sine has a crest factor of 3.01 dB, a square wave of 0: the meter reads its offset less four times that."""
    tone = Sound(sine(200.0), RATE_HZ)
    np.testing.assert_allclose(blind.flat_tops_db(tone).value, 13.0 - 4.0 * 3.01, atol=0.1)
    square = Sound(0.1 * np.sign(tone.samples + 1e-9), RATE_HZ)
    np.testing.assert_allclose(blind.flat_tops_db(square).value, 13.0, atol=0.1)


@pytest.mark.parametrize("meter", [blind.noise_floor_db, blind.decay_db, blind.flat_tops_db], ids=lambda meter: meter.__name__)
def test_blind_meters_do_not_heed_level(meter: Callable[[Sound], Contour]) -> None:
    """12 dB less of a row in noise reads the same, and of stereo with two like channels too."""
    samples = row() + 0.01 * white(2, 0.0, 4.0)[: len(row())]
    wanted = meter(Sound(samples, RATE_HZ)).value
    np.testing.assert_allclose(meter(Sound(0.25 * samples, RATE_HZ)).value, wanted, atol=1e-3)
    np.testing.assert_allclose(meter(Sound(np.stack([samples, samples], axis=1), RATE_HZ)).value, wanted, atol=1e-3)
