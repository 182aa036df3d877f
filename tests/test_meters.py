"""Known answers for meters, filters, statistics and curves: from standards, from closed forms, or from the sound's own recipe.

Every sound is made here. Where a tolerance is wider than the method's own, the reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import metasona
import numpy as np
import pyloudnorm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.acoustics import audio, curves, filters, meters, praat, statistics, voice
from builder.dimensions import BY_NAME, DIMENSIONS, Dimension, Planned
from builder.errors import Refused
from builder.records import Contour, FloatArray, Sound

RATES_HZ = (16_000, 48_000)
FEW = settings(max_examples=25, deadline=None, derandomize=True)
MANY = settings(max_examples=100, deadline=None, derandomize=True)

Meter = Callable[[Sound], Contour]

METERS: dict[str, Meter] = {
    "momentary_loudness_lufs": meters.momentary_loudness_lufs,
    "loudness_level_phon": meters.loudness_level_phon,
    "frame_level_db": meters.frame_level_db,
    "spectral_tilt_db_per_octave": meters.spectral_tilt_db_per_octave,
    "sharpness_acum": meters.sharpness_acum,
    "f0_semitones": meters.f0_semitones,
    "f0_autocorrelation_hz": praat.f0_autocorrelation_hz,
    "envelope_db": meters.envelope_db,
    "event_rate_log": meters.event_rate_log,
    "periodicity_rate_log": meters.periodicity_rate_log,
}

HEARD: dict[str, Meter] = {
    f"{dimension.name} {what}": how
    for dimension in DIMENSIONS
    for what, how in (
        ("measure", dimension.measure),
        ("witness", dimension.witness),
        *((f"held_by {i}", held.measure) for i, held in enumerate(dimension.held_by)),
    )
}


def fit_for(name: str, sound: Sound) -> Sound:
    """A mono sound as a meter's dimension has it: for a stereo one with a right channel 6 dB under the left."""
    dimension = BY_NAME.get(name.split()[0])
    if dimension is None or not dimension.stereo:
        return sound
    return sound.each(lambda samples: np.stack([samples, 0.5 * samples], axis=1))


def sine(frequency_hz: float, peak_dbfs: float, sample_rate_hz: int = 16_000, duration_s: float = 2.0) -> Sound:
    """A sine at a peak level."""
    time_s = np.arange(round(duration_s * sample_rate_hz)) / sample_rate_hz
    return Sound(10.0 ** (peak_dbfs / 20.0) * np.sin(2.0 * np.pi * frequency_hz * time_s), sample_rate_hz)


def white(seed: int, sample_rate_hz: int = 16_000, duration_s: float = 3.0, rms: float = 0.03) -> Sound:
    """White Gaussian noise."""
    samples = np.random.default_rng(seed).standard_normal(round(duration_s * sample_rate_hz))
    return Sound(rms * samples, sample_rate_hz)


def sloped(slope_db_per_octave: float, seed: int, sample_rate_hz: int = 16_000) -> Sound:
    """Gaussian noise whose power spectrum is straight on log-log axes."""
    n = 3 * sample_rate_hz
    frequency_hz = np.maximum(np.fft.rfftfreq(n, 1.0 / sample_rate_hz), 20.0)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(n))
    samples = np.fft.irfft(spectrum * 10.0 ** (slope_db_per_octave * np.log2(frequency_hz / 1000.0) / 20.0), n)
    return Sound(0.02 * samples, sample_rate_hz)


def harmonics(cycles: FloatArray, highest_hz: float, sample_rate_hz: int, *, pulses: bool = False) -> Sound:
    """Harmonics of a phase in cycles, up to 4 kHz: falling by 6 dB per octave, or all equal and in phase (a pulse train)."""
    count = int(min(4000.0, 0.45 * sample_rate_hz) // highest_hz)
    samples = np.zeros_like(cycles)
    for number in range(1, count + 1):
        samples += np.cos(2.0 * np.pi * number * cycles) if pulses else np.sin(2.0 * np.pi * number * cycles) / number
    return Sound(0.1 * samples / np.sqrt(np.mean(samples**2)), sample_rate_hz)


def steady(f0_hz: float, sample_rate_hz: int = 16_000, duration_s: float = 0.8, *, pulses: bool = False) -> Sound:
    """A complex tone or pulse train of constant F0."""
    time_s = np.arange(round(duration_s * sample_rate_hz)) / sample_rate_hz
    return harmonics(f0_hz * time_s, f0_hz, sample_rate_hz, pulses=pulses)


def glide(start_hz: float, semitones: float, duration_s: float = 2.0, sample_rate_hz: int = 16_000) -> Sound:
    """A complex tone whose F0 moves by so many semitones in all, at a constant rate in semitones."""
    time_s = np.arange(round(duration_s * sample_rate_hz)) / sample_rate_hz
    growth = semitones / 12.0 * np.log(2.0) / duration_s
    cycles = start_hz * np.expm1(growth * time_s) / growth
    return harmonics(cycles, start_hz * 2.0 ** (max(semitones, 0.0) / 12.0), sample_rate_hz)


def narrow_band(sample_rate_hz: int) -> Sound:
    """Noise one critical band wide (160 Hz) about 1 kHz, unit RMS."""
    n = 3 * 48_000
    frequency_hz = np.fft.rfftfreq(n, 1.0 / 48_000)
    spectrum = np.fft.rfft(np.random.default_rng(0).standard_normal(n))
    samples = np.fft.irfft(np.where((frequency_hz >= 920.0) & (frequency_hz <= 1080.0), spectrum, 0.0), n)
    return Sound(audio.resampled(samples / np.sqrt(np.mean(samples**2)), 48_000, sample_rate_hz), sample_rate_hz)


def clicks(rate_hz: float, count: int, sample_rate_hz: int = 16_000) -> Sound:
    """So many single-sample clicks at a steady rate, half an interval from either end."""
    samples = np.zeros(round(count / rate_hz * sample_rate_hz))
    samples[np.round((np.arange(count) + 0.5) / rate_hz * sample_rate_hz).astype(int)] = 0.5
    return Sound(samples, sample_rate_hz)


def bursts(rate_hz: float, count: int, carrier_hz: float | None) -> Sound:
    """So many raised-cosine bursts of tone or noise, each half an interval long."""
    parameters = {
        "rate_hz": rate_hz,
        "duty": 0.5,
        "carrier_hz": carrier_hz,
        "duration_s": voice.row_duration_s(rate_hz, count, 0.5),
        "seed": 1,
    }
    return Sound(0.1 * voice.pulses(parameters, 16_000, {}).samples, 16_000)


def ramp_db(start_db: float, end_db: float, n_frames: int = 240) -> Contour:
    """A straight line over [0, 1] s at frame centres."""
    time_s = (np.arange(n_frames) + 0.5) / n_frames
    return Contour(time_s, start_db + (end_db - start_db) * time_s)


# -- loudness: ITU-R BS.1770 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("peak_dbfs", [0.0, -20.0, -40.0, -60.0])
def test_bs1770_reference_sine(sample_rate_hz: int, peak_dbfs: float) -> None:
    """BS.1770: a 997 Hz sine at 0 dBFS in one channel reads -3.01 LKFS, and so on down: in every window, at any rate."""
    found = meters.momentary_loudness_lufs(sine(997.0, peak_dbfs, sample_rate_hz))
    assert found.valid.all()
    assert len(found.value) == 17
    np.testing.assert_allclose(found.value, peak_dbfs - 3.01, atol=0.1)


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
def test_momentary_windows_agree_with_pyloudnorm(sample_rate_hz: int) -> None:
    """On steady noise, the energy mean of the momentary windows is pyloudnorm's integrated loudness."""
    sound = white(3, sample_rate_hz, 4.0)
    momentary = meters.momentary_loudness_lufs(sound).value
    mean_lufs = 10.0 * np.log10(np.mean(10.0 ** (momentary / 10.0)))
    assert mean_lufs == pytest.approx(pyloudnorm.Meter(sample_rate_hz).integrated_loudness(sound.samples), abs=0.1)


def test_momentary_loudness_times_are_window_centres() -> None:
    """A jump of 15 dB at 1.0 s lies wholly in the windows centred at 1.2 s and later, and not at all in those up to 0.8 s."""
    sound = sine(997.0, -10.0)
    gain_db = np.where(np.arange(len(sound.samples)) < sound.sample_rate_hz, -15.0, 0.0)
    found = meters.momentary_loudness_lufs(filters.scaled_by_db(sound, gain_db))
    np.testing.assert_allclose(found.value[found.time_s <= 0.8 + 1e-9], -28.01, atol=0.1)
    np.testing.assert_allclose(found.value[found.time_s >= 1.2 - 1e-9], -13.01, atol=0.1)


def test_pauses_have_no_loudness() -> None:
    """A stretch 25 dB under its neighbours is a pause: no value there."""
    sound = sine(997.0, -10.0, duration_s=3.0)
    gain_db = np.where(np.abs(np.arange(len(sound.samples)) / 16_000 - 1.5) < 0.5, -25.0, 0.0)
    found = meters.momentary_loudness_lufs(filters.scaled_by_db(sound, gain_db))
    pause = np.abs(found.time_s - 1.5) <= 0.3 + 1e-9
    assert not found.valid[pause].any()
    assert found.valid[np.abs(found.time_s - 1.5) >= 0.4].all()


def test_absolute_gate_of_loudness() -> None:
    """A tone just above -70 LUFS is a number, one just below is none: BS.1770's absolute gate."""
    assert meters.momentary_loudness_lufs(sine(997.0, -66.5)).valid.all()
    assert not meters.momentary_loudness_lufs(sine(997.0, -67.5)).valid.any()


@pytest.mark.parametrize("name", HEARD)
def test_silence_has_no_value(name: str) -> None:
    """Digital silence gives no number in any dimension, by no method."""
    assert not HEARD[name](fit_for(name, Sound(np.zeros(32_000), 16_000))).valid.any()


@pytest.mark.parametrize("name", HEARD)
def test_a_tone_under_the_gate_has_no_value(name: str) -> None:
    """A tone at -75 dBFS is under the gate: -inf or -70 is never taken as a number."""
    assert not HEARD[name](fit_for(name, sine(997.0, -75.0))).valid.any()


@pytest.mark.parametrize("sound", [Sound(np.zeros(32_000), 16_000), sine(997.0, -75.0)], ids=["silence", "-75 dBFS"])
def test_silence_cannot_be_brought_to_the_reference_level(sound: Sound) -> None:
    """What has no loudness is refused as silent instead of being multiplied by infinity."""
    with pytest.raises(Refused, match=r"silent: no 400 ms above -70 LUFS in 2\.00 s"):
        audio.at_reference_level(sound)


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
def test_reference_level_is_minus_28_lufs(sample_rate_hz: int) -> None:
    """A source at the reference level reads -28 LUFS by pyloudnorm, whatever level it came at."""
    for rms in (0.001, 0.3):
        made = audio.at_reference_level(white(1, sample_rate_hz, rms=rms))
        assert pyloudnorm.Meter(sample_rate_hz).integrated_loudness(made.samples) == pytest.approx(-28.0, abs=0.1)


# -- loudness level and sharpness: ISO 532-1, DIN 45692 ---------------------------------------------------------------


def sine_at_spl(level_db_spl: float, sample_rate_hz: int) -> Sound:
    """A 1 kHz sine at a sound pressure level: -28 LUFS, which is -25 dBFS of peak, plays at 65 dB SPL."""
    return sine(1000.0, level_db_spl - 65.0 - 25.0, sample_rate_hz)


def test_one_sone_is_1_khz_at_40_db() -> None:
    """ISO 532-1: a 1 kHz tone at 40 dB SPL is 1 sone, and each 10 dB more double it (metasona's own filters)."""
    time_s = np.arange(96_000) / 48_000
    for level_db_spl, sone in ((40.0, 1.0), (50.0, 2.0), (60.0, 4.0), (70.0, 8.0), (80.0, 16.0)):
        pressure_pa = 2e-5 * 10.0 ** (level_db_spl / 20.0) * np.sqrt(2.0) * np.sin(2.0 * np.pi * 1000.0 * time_s)
        found = metasona.stationary_loudness(pressure_pa, 48_000).loudness_sone
        assert found == pytest.approx(sone, rel=0.01 if level_db_spl == 40.0 else 0.07)


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("level_db_spl", [40.0, 50.0, 60.0, 70.0, 80.0])
def test_loudness_level_of_a_1_khz_tone_is_its_spl(level_db_spl: float, sample_rate_hz: int) -> None:
    """A 1 kHz tone's loudness level in phon is its SPL, to 2.5 phon: our bands lack the skirts that ISO's filters have.

    The standard's third-octave filters leak a tone into their neighbours, and its tables are made for that leak; bands cut
    from a spectrum are sharper, so a tone reads up to 2.0 phon low.
    """
    found = meters.loudness_level_phon(sine_at_spl(level_db_spl, sample_rate_hz))
    assert found.valid.all()
    np.testing.assert_allclose(found.value, level_db_spl, atol=2.5)


@pytest.mark.parametrize("level_db_spl", [40.0, 50.0, 60.0, 70.0])
def test_ten_db_more_are_ten_phon_more(level_db_spl: float) -> None:
    """At 1 kHz, 10 dB of level are 10 phon: what a label uses is a difference, and the bias cancels in it."""
    low, high = (np.median(meters.loudness_level_phon(sine_at_spl(level_db_spl + more, 16_000)).value) for more in (0.0, 10.0))
    assert high - low == pytest.approx(10.0, abs=0.7)


def test_one_acum_is_narrow_noise_at_1_khz() -> None:
    """DIN 45692: noise one critical band wide about 1 kHz at 60 dB SPL is 1 acum, to the standard's 5 %."""
    pressure_pa = 2e-5 * 10.0 ** (60.0 / 20.0) * narrow_band(48_000).samples
    specific = metasona.stationary_loudness(pressure_pa, 48_000).specific_loudness_sone_per_bark
    assert metasona.sharpness_din45692(specific).sharpness_acum == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
def test_frame_by_frame_sharpness_of_the_reference(sample_rate_hz: int) -> None:
    """Our frames give the reference 1 acum to 10 %: again for want of the skirts below the band, which would dull it."""
    sound = filters.scaled_by_db(narrow_band(sample_rate_hz), 60.0 - 65.0 - 28.0)
    found = meters.sharpness_acum(sound)
    assert found.valid.all()
    assert np.mean(found.value) == pytest.approx(1.0, abs=0.1)


def test_sharpness_rises_with_frequency() -> None:
    """Of tones at one level, the higher is the sharper."""
    sharpness = [np.median(meters.sharpness_acum(sine(frequency_hz, -30.0)).value) for frequency_hz in (250, 500, 1000, 2000, 4000)]
    assert np.all(np.diff(sharpness) > 0.1)


@pytest.mark.parametrize(
    ("name", "atol"),
    [("frame_level_db", 0.001), ("envelope_db", 0.001), ("momentary_loudness_lufs", 0.01), ("loudness_level_phon", 0.01)],
)
def test_times_are_centres(name: str, atol: float) -> None:
    """A swell about 1.0 s in steady noise is symmetric about 1.0 s in every meter of level: a frame's time is its centre."""
    steady_noise = white(8, duration_s=2.0, rms=0.01)
    time_s = np.arange(len(steady_noise.samples)) / 16_000
    pulse = np.exp(-0.5 * ((time_s - 1.0) / 0.02) ** 2) * np.sin(2.0 * np.pi * 1000.0 * time_s)
    before, after = (METERS[name](sound) for sound in (steady_noise, Sound(steady_noise.samples + 0.3 * pulse, 16_000)))
    risen = after.value - before.value
    assert np.sum(risen * after.time_s) / np.sum(risen) == pytest.approx(1.0, abs=atol)


# -- F0 ---------------------------------------------------------------------------------------------------------------

TRACKERS: dict[str, Meter] = {"praat": meters.f0_semitones, "swift-f0": BY_NAME["pitch"].witness}


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("pulses", [False, True], ids=["complex", "pulses"])
@pytest.mark.parametrize("tracker", TRACKERS)
def test_f0_of_steady_tones(tracker: str, pulses: bool, sample_rate_hz: int) -> None:
    """Complex tones and pulse trains of 60 to 480 Hz: F0 within 0.1 semitone in at least 90 % of frames, by both trackers."""
    for f0_hz in (60.0, 62.0, 70.0, 87.0, 110.0, 147.0, 208.0, 277.0, 350.0, 415.0, 480.0):
        found = TRACKERS[tracker](steady(f0_hz, sample_rate_hz, pulses=pulses))
        assert found.valid.mean() >= 0.9
        np.testing.assert_allclose(found.value[found.valid], 12.0 * np.log2(f0_hz / 100.0), atol=0.1, err_msg=f"{f0_hz} Hz")


@FEW
@given(st.floats(61.0, 600.0))
def test_praat_f0_at_any_frequency(f0_hz: float) -> None:
    """Praat's F0 of a complex tone is right to a hundredth of a semitone wherever it lies in 61 to 600 Hz."""
    found = meters.f0_semitones(steady(f0_hz, duration_s=0.4))
    assert found.valid.all()
    np.testing.assert_allclose(found.value, 12.0 * np.log2(f0_hz / 100.0), atol=0.01)


@FEW
@given(st.floats(62.0, 490.0))
def test_swift_f0_at_any_frequency(f0_hz: float) -> None:
    """swift-f0's median F0 of a complex tone is right to 0.15 semitone wherever it lies in 62 to 490 Hz.

    Wider than Praat's: its bins are a third of a semitone wide and its interpolation between them has ripple.
    """
    found = BY_NAME["pitch"].witness(steady(f0_hz, duration_s=0.5))
    assert np.median(found.value[found.valid]) == pytest.approx(12.0 * np.log2(f0_hz / 100.0), abs=0.15)


@pytest.mark.parametrize("semitones", [-12.0, -6.0, -3.0, 3.0, 6.0, 12.0])
@pytest.mark.parametrize("start_hz", [130.0, 220.0])
@pytest.mark.parametrize("tracker", TRACKERS)
def test_f0_follows_glides(tracker: str, start_hz: float, semitones: float) -> None:
    """An exponential glide is followed within 0.1 semitone at every frame and within 1 % over its whole length."""
    found = TRACKERS[tracker](glide(start_hz, semitones))
    wanted = 12.0 * np.log2(start_hz / 100.0) + semitones * found.time_s / 2.0
    error = (found.value - wanted)[found.valid]
    assert found.valid.mean() >= 0.95
    assert np.max(np.abs(error)) <= 0.1
    slope = np.polyfit(found.time_s[found.valid], found.value[found.valid], 1)[0] * 2.0
    assert slope == pytest.approx(semitones, rel=0.01)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("tracker", "share"), [("praat", 0.0), ("swift-f0", 0.01)])
def test_noise_has_no_f0(tracker: str, share: float, seed: int) -> None:
    """White noise has no F0 in any frame by Praat, and in at most one of a hundred by swift-f0, which is sure of itself at times."""
    found = TRACKERS[tracker](white(seed))
    assert len(found.value) > 100
    assert found.valid.mean() <= share


# -- spectral tilt ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_white_is_3_db_per_octave_over_pink(sample_rate_hz: int, seed: int) -> None:
    """White noise tilts 3.01 dB/octave above pink noise, and by itself: third-octave bands widen by an octave per octave."""
    white_tilt, pink_tilt = (
        np.mean(meters.spectral_tilt_db_per_octave(sloped(slope, seed, sample_rate_hz)).value) for slope in (0.0, -10.0 * np.log10(2.0))
    )
    assert white_tilt - pink_tilt == pytest.approx(3.01, abs=0.15)
    assert white_tilt == pytest.approx(3.01, abs=0.5)


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("slope", [-8.0, -3.0, -1.0, 1.0, 3.0, 8.0])
def test_an_imposed_tilt_is_measured(sample_rate_hz: int, slope: float) -> None:
    """A tilt of x dB/octave put on by the filter raises the measured tilt by x, to 2 %."""
    base = sloped(-4.0, 5, sample_rate_hz)
    made = filters.tilted(base, lambda time_s: np.full_like(time_s, slope))
    change = meters.spectral_tilt_db_per_octave(made).value - meters.spectral_tilt_db_per_octave(base).value
    assert np.mean(change) == pytest.approx(slope, rel=0.02)


def test_a_tilt_that_varies_is_measured_where_it_is() -> None:
    """A tilt that rises by 6 dB/octave over 3 s is measured as that straight line, frame by frame to 0.4 dB/octave."""
    base = sloped(-4.0, 6)
    made = filters.tilted(base, lambda time_s: 2.0 * time_s)
    before, after = (meters.spectral_tilt_db_per_octave(sound) for sound in (base, made))
    np.testing.assert_allclose(after.value - before.value, 2.0 * before.time_s, atol=0.4)


@pytest.mark.parametrize("frequency_hz", [60.0, 100.0, 8000.0, 10_000.0])
def test_tilt_is_of_the_bands_from_200_to_5500_hz(frequency_hz: float) -> None:
    """A tone outside of the bands that count, as loud as the noise itself, leaves the tilt where it was to 0.01 dB/octave."""
    base = sloped(-4.0, 5, 48_000)
    hummed = Sound(base.samples + sine(frequency_hz, -30.0, 48_000, 3.0).samples, 48_000)
    before, after = (meters.spectral_tilt_db_per_octave(sound).value for sound in (base, hummed))
    np.testing.assert_allclose(after, before, atol=0.01)


def test_tilt_does_not_hear_level() -> None:
    """A gain of 20 dB leaves the tilt of noise where it was."""
    base = sloped(-3.0, 7)
    louder = filters.scaled_by_db(base, 20.0)
    np.testing.assert_allclose(meters.spectral_tilt_db_per_octave(louder).value, meters.spectral_tilt_db_per_octave(base).value, atol=1e-6)


# -- events and rate --------------------------------------------------------------------------------------------------

ROWS: dict[str, Callable[[float, int], Sound]] = {
    "clicks": clicks,
    "tone bursts": lambda rate_hz, count: bursts(rate_hz, count, 500.0),
    "noise bursts": lambda rate_hz, count: bursts(rate_hz, count, None),
}


@pytest.mark.parametrize("rate_hz", [2.5, 3.2, 4.0, 5.0, 6.0])
@pytest.mark.parametrize("row", ROWS)
def test_isochronous_rows_are_counted_and_timed(row: str, rate_hz: float) -> None:
    """Of an isochronous row every event is found, no more, and its rate is right to 1 %; by periodicity too, at each moment."""
    count = round(4 * rate_hz)
    sound = ROWS[row](rate_hz, count)
    times_s = meters.event_times_s(sound)
    assert len(times_s) == count
    assert (count - 1) / (times_s[-1] - times_s[0]) == pytest.approx(rate_hz, rel=0.01)
    intervals = meters.event_rate_log(sound)
    assert len(intervals.value) == count - 1
    assert np.exp(np.mean(intervals.value)) == pytest.approx(rate_hz, rel=0.01)
    local = meters.periodicity_rate_log(sound)
    assert local.valid.all()
    np.testing.assert_allclose(local.value, np.log(rate_hz), atol=np.log(1.01))


def test_event_times_are_where_the_clicks_are() -> None:
    """A click's time is its own, to 5 ms."""
    np.testing.assert_allclose(meters.event_times_s(clicks(4.0, 16)), (np.arange(16) + 0.5) / 4.0, atol=0.005)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_planned_change_of_rate_is_measured(sign: float) -> None:
    """Pulses whose log rate moves by 0.4 over the clip are heard doing that, by events and by periodicity, to 15 %."""
    parameters = {"rate_hz": 5.0, "duty": 0.5, "carrier_hz": 700.0, "duration_s": 4.0, "seed": 1}
    made = voice.pulses(parameters, 16_000, {"tempo": lambda time_s: sign * 0.4 * (time_s / 4.0 - 0.5)})
    for meter in (meters.event_rate_log, meters.periodicity_rate_log):
        found = meter(Sound(0.1 * made.samples, 16_000))
        slope = np.polyfit(found.time_s[found.valid], found.value[found.valid], 1)[0]
        assert 4.0 * slope == pytest.approx(sign * 0.4, rel=0.15)


def test_four_events_are_no_row() -> None:
    """Fewer than five events have no rate."""
    assert len(meters.event_rate_log(clicks(4.0, 4)).value) == 0
    assert len(meters.event_rate_log(clicks(4.0, 5)).value) == 4


def test_level_does_not_move_events() -> None:
    """A fade of 24 dB over a row of broad swells leaves every one found and moves none by more than half a millisecond."""
    time_s = np.arange(64_000) / 16_000
    sound = Sound(0.1 * (0.5 - 0.5 * np.cos(2.0 * np.pi * 2.5 * time_s)) * np.sin(2.0 * np.pi * 500.0 * time_s), 16_000)
    faded = filters.scaled_by_db(sound, np.linspace(0.0, -24.0, len(sound.samples)))
    assert len(meters.event_times_s(sound)) == 10
    np.testing.assert_allclose(meters.event_times_s(faded), meters.event_times_s(sound), atol=0.0005)


# -- filters ----------------------------------------------------------------------------------------------------------


@MANY
@given(st.integers(0, 4000), st.sampled_from([8_000, 16_000, 22_050, 44_100, 48_000]))
def test_a_filter_of_0_db_is_the_identity(n_samples: int, sample_rate_hz: int) -> None:
    """Overlap-add with a gain of 0 dB gives every sample back to 1e-12, at any length and rate."""
    samples = np.random.default_rng(n_samples).uniform(-1.0, 1.0, n_samples)
    made = filters.filtered(Sound(samples, sample_rate_hz), lambda time_s, frequency_hz: 0.0 * (time_s + frequency_hz))
    assert made.sample_rate_hz == sample_rate_hz
    assert len(made.samples) == n_samples
    np.testing.assert_allclose(made.samples, samples, atol=1e-12)


def test_a_filter_of_equal_gain_is_a_gain() -> None:
    """A filter of -6 dB at every time and frequency is a gain of -6 dB."""
    sound = white(1)
    made = filters.filtered(sound, lambda time_s, frequency_hz: -6.0 + 0.0 * (time_s + frequency_hz))
    np.testing.assert_allclose(made.samples, filters.scaled_by_db(sound, -6.0).samples, atol=1e-12)


def test_a_filter_acts_when_it_is_told() -> None:
    """A filter that goes from 0 to -20 dB at 1.0 s does so within a window about 1.0 s, and is half-way within 5 ms of it."""
    sound = white(5)
    made = filters.filtered(sound, lambda time_s, frequency_hz: np.where(time_s < 1.0, 0.0, -20.0) + 0.0 * frequency_hz)
    gain_db = 20.0 * np.log10(np.abs(made.samples / sound.samples))
    np.testing.assert_allclose(gain_db[: round(0.96 * 16_000)], 0.0, atol=1e-6)
    np.testing.assert_allclose(gain_db[round(1.04 * 16_000) :], -20.0, atol=1e-6)
    weak = np.convolve(made.samples**2, np.ones(160), "same") < 0.1 * np.convolve(sound.samples**2, np.ones(160), "same")
    assert np.flatnonzero(weak)[0] / 16_000 == pytest.approx(1.0, abs=0.005)


def test_a_tilt_turns_about_1_khz() -> None:
    """A tilt of 6 dB/octave leaves 1 kHz alone, takes 6 dB from 500 Hz and gives 6 dB to 2 kHz."""
    for frequency_hz, wanted_db in ((500.0, -6.0), (1000.0, 0.0), (2000.0, 6.0)):
        sound = sine(frequency_hz, -30.0)
        made = filters.tilted(sound, lambda time_s: np.full_like(time_s, 6.0)).samples[8000:24_000]
        change_db = 10.0 * np.log10(np.mean(made**2) / np.mean(sound.samples[8000:24_000] ** 2))
        assert change_db == pytest.approx(wanted_db, abs=0.1)


@MANY
@given(st.floats(-60.0, 20.0))
def test_scaled_by_db(gain_db: float) -> None:
    """A gain in dB changes the RMS by just that, as one number or as one per sample; and is undone by its negative."""
    sound = white(2, duration_s=0.1)
    whole = filters.scaled_by_db(sound, gain_db)
    each = filters.scaled_by_db(sound, np.full(len(sound.samples), gain_db))
    np.testing.assert_allclose(whole.samples, each.samples, rtol=1e-12)
    assert 10.0 * np.log10(np.mean(whole.samples**2) / np.mean(sound.samples**2)) == pytest.approx(gain_db, abs=1e-9)
    np.testing.assert_allclose(filters.scaled_by_db(whole, -gain_db).samples, sound.samples, rtol=1e-12)


@pytest.mark.parametrize("curve", curves.CURVES)
@pytest.mark.parametrize("span_db", [-12.0, 3.0, 12.0])
def test_with_loudness_of_undoes_a_ramp(curve: str, span_db: float) -> None:
    """A gain along a known curve is taken back: momentary loudness within 0.1 LU and loudness level within 0.1 phon."""
    base = white(4)
    planned = Planned(curve, span_db, 0.2, 2.7)
    moved = filters.scaled_by_db(base, planned.at(np.arange(len(base.samples)) / base.sample_rate_hz))
    made = filters.with_loudness_of(moved, base, planned.seen_at)
    for meter in (meters.momentary_loudness_lufs, meters.loudness_level_phon):
        assert np.max(np.abs(meter(moved).value - meter(base).value)) > 0.9
        np.testing.assert_allclose(meter(made).value, meter(base).value, atol=0.1)


def test_with_loudness_of_undoes_what_has_no_shape() -> None:
    """A slow swell of +-3 dB that follows no curve is taken back by the smooth gain: to 0.2 LU, from 2.8."""
    base = white(4)
    moved = filters.scaled_by_db(base, 3.0 * np.sin(2.0 * np.pi * 0.5 * np.arange(len(base.samples)) / base.sample_rate_hz))
    made = filters.with_loudness_of(moved, base, lambda time_s, window_s: np.zeros_like(time_s))
    loudness = [meters.momentary_loudness_lufs(sound).value for sound in (moved, made, base)]
    assert np.max(np.abs(loudness[0] - loudness[2])) > 2.5
    np.testing.assert_allclose(loudness[1], loudness[2], atol=0.2)


def test_with_loudness_of_silence_changes_nothing() -> None:
    """Where nothing is loud enough to be measured, the sound comes back as it was."""
    silence = Sound(np.zeros(32_000), 16_000)
    made = filters.with_loudness_of(silence, silence, Planned("linear", 6.0, 0.0, 2.0).seen_at)
    np.testing.assert_array_equal(made.samples, silence.samples)


# -- statistics -------------------------------------------------------------------------------------------------------


@MANY
@given(st.floats(-20.0, 20.0), st.floats(-50.0, 50.0), st.lists(st.integers(0, 59), max_size=12, unique=True), st.floats(-1e3, 1e3))
def test_theil_sen_of_a_line_with_outliers(slope: float, offset: float, wild: list[int], away: float) -> None:
    """The slope of a line is exact though a fifth of its frames are wild: clean pairs stay in the majority."""
    time_s = np.arange(60) * 0.05
    value = offset + slope * time_s
    value[wild] += away
    assert statistics.trend_per_s(Contour(time_s, value)) == pytest.approx(slope, abs=1e-6)


def test_long_contours_keep_their_trend() -> None:
    """Of t squared over [0, 1] the slopes are t1 + t2, with the median 1: also for 1200 frames, which are thinned evenly."""
    time_s = (np.arange(1200) + 0.5) / 1200
    assert statistics.trend_per_s(Contour(time_s, time_s**2)) == pytest.approx(1.0, abs=0.005)


@MANY
@given(st.floats(-30.0, 30.0), st.floats(-30.0, 30.0))
def test_thirds_contrast_of_a_line_is_two_thirds_of_its_span(start: float, end: float) -> None:
    """Of a straight line, every contrast of thirds is two thirds of the whole change."""
    line = ramp_db(start, end)
    wanted = pytest.approx((end - start) * 2.0 / 3.0, abs=1e-9)
    assert statistics.thirds_contrast(line, 0.0, 1.0) == wanted
    assert statistics.mean_contrast(line, 0.0, 1.0) == wanted
    assert statistics.drift_per_s(line, 0.0, 1.0) == pytest.approx(end - start, abs=0.01 * abs(end - start) + 1e-9)


@MANY
@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=40, unique=True))
def test_rank_figures_of_monotone_values_are_one(values: list[int]) -> None:
    """Spearman's rho and Kendall's tau of what always rises are 1, of what always falls -1."""
    rising = np.array(sorted(values), dtype=np.float64)
    time_s = np.arange(len(rising), dtype=np.float64)
    assert statistics.spearman_rho(Contour(time_s, rising)) == pytest.approx(1.0)
    assert statistics.spearman_rho(Contour(time_s, rising[::-1])) == pytest.approx(-1.0)
    assert statistics.kendall_tau(rising) == pytest.approx(1.0)
    assert statistics.kendall_tau(rising[::-1]) == pytest.approx(-1.0)


def test_rank_figures_of_a_constant_are_zero() -> None:
    """What doesn't move has rank correlation 0; under three values have none."""
    constant = Contour(np.arange(5.0), np.ones(5))
    assert statistics.spearman_rho(constant) == 0.0
    assert statistics.kendall_tau(np.ones(5)) == 0.0
    assert np.isnan(statistics.spearman_rho(Contour(np.arange(2.0), np.arange(2.0))))
    assert np.isnan(statistics.kendall_tau(np.arange(2.0)))


@MANY
@given(st.floats(-5.0, 5.0).filter(lambda gain: abs(gain) > 0.01), st.floats(-10.0, 10.0), st.floats(0.0, 3.0))
def test_fit_recovers_gain_and_r_squared(gain: float, offset: float, spread: float) -> None:
    """Least squares of g * shape + offset + what is orthogonal to the shape: the gain is g, R-squared is g's share."""
    shape = np.tile([-1.0, -1.0, 1.0, 1.0], 10)
    across = np.tile([-1.0, 1.0, -1.0, 1.0], 10) * spread
    found_gain, r_squared = statistics.fit(gain * shape + offset + across, shape)
    assert found_gain == pytest.approx(gain, abs=1e-9)
    assert r_squared == pytest.approx(gain**2 / (gain**2 + spread**2), abs=1e-9)


def test_fit_leaves_out_what_has_no_value() -> None:
    """`nan` frames don't count, and a fit of a constant or of under three frames is no fit."""
    shape = np.arange(10.0)
    value = 2.0 * shape
    value[[0, 5]] = np.nan
    assert statistics.fit(value, shape) == pytest.approx((2.0, 1.0))
    assert statistics.fit(np.ones(10), shape) == (0.0, 0.0)
    assert statistics.fit(shape, np.ones(10)) == (0.0, 0.0)
    assert statistics.fit(np.array([1.0, np.nan, 2.0]), np.arange(3.0)) == (0.0, 0.0)


@MANY
@given(st.floats(-60.0, 0.0), st.floats(-60.0, 0.0), st.sampled_from([2.0, 10.0]))
def test_level_contrast_of_two_levels(first: float, last: float, factor: float) -> None:
    """From one steady level to another, the contrast is their difference, whatever is averaged."""
    time_s = (np.arange(30) + 0.5) / 30
    contour = Contour(time_s, np.where(time_s < 0.5, first, last))
    assert statistics.level_contrast(contour, 0.0, 1.0, factor) == pytest.approx(last - first, abs=1e-9)


def test_level_contrast_averages_power_or_loudness() -> None:
    """A third that is half 0 dB, half -10 dB has the mean power 0.55 (-2.596 dB); in phon, the mean of 1 and 1/2: -4.150."""
    time_s = (np.arange(60) + 0.5) / 60
    last = np.where(np.arange(60) % 2 == 0, 0.0, -10.0)
    contour = Contour(time_s, np.where(time_s < 0.5, 0.0, last))
    assert statistics.level_contrast(contour, 0.0, 1.0, 10.0) == pytest.approx(10.0 * np.log10(0.55), abs=1e-9)
    assert statistics.level_contrast(contour, 0.0, 1.0, 2.0) == pytest.approx(10.0 * np.log2(0.75), abs=1e-9)


def test_contrast_spread() -> None:
    """A line brings no spread of its own, a zigzag about it the closed form's, and under four blocks tell nothing."""
    assert statistics.contrast_spread(3.0 * np.arange(8.0) - 7.0) == pytest.approx(0.0, abs=1e-9)
    assert statistics.contrast_spread(np.arange(3.0)) == float("inf")
    zigzag = np.tile([1.0, -1.0], 4)
    residual_squares = 8.0 - 4.0**2 / 42.0
    wanted = np.sqrt(residual_squares / 6.0) * np.sqrt(3.0 / 4.0)
    assert statistics.contrast_spread(zigzag + 2.0 * np.arange(8.0)) == pytest.approx(wanted)


def test_contrasts_ignore_a_few_wild_frames() -> None:
    """One wild frame in ten moves neither the median nor the trimmed contrast of a step."""
    time_s = (np.arange(30) + 0.5) / 30
    value = np.where(time_s < 0.5, 1.0, 4.0)
    value[[2, 25]] = 900.0
    assert statistics.mean_contrast(Contour(time_s, value), 0.0, 1.0) == pytest.approx(3.0)
    assert statistics.thirds_contrast(Contour(time_s, value), 0.0, 1.0) == pytest.approx(3.0)


def test_smooth_takes_out_spikes_and_keeps_gaps() -> None:
    """A five-frame median takes out two wild frames, keeps a step where it is, and invents nothing in a gap."""
    value = np.where(np.arange(30) < 15, 0.0, 1.0)
    spiked = value.copy()
    spiked[[4, 5]] = 99.0
    spiked[20] = np.nan
    found = statistics.smooth(Contour(np.arange(30.0), spiked)).value
    assert np.isnan(found[20])
    kept = np.arange(30) != 20
    np.testing.assert_array_equal(found[kept], value[kept])


def test_block_medians_are_eight_and_skip_gaps() -> None:
    """Eight equal blocks give eight medians; a block without a value is left out."""
    time_s = (np.arange(80) + 0.5) / 80
    value = np.floor(time_s * 8.0)
    np.testing.assert_array_equal(statistics.block_medians(Contour(time_s, value), 0.0, 1.0), np.arange(8.0))
    value[20:30] = np.nan
    np.testing.assert_array_equal(statistics.block_medians(Contour(time_s, value), 0.0, 1.0), [0, 1, 3, 4, 5, 6, 7])


def test_no_frames_have_no_statistics() -> None:
    """An empty contour has no trend, no contrast, no rank and no drift, and raises nothing."""
    for figure in (
        statistics.trend_per_s(meters.EMPTY),
        statistics.thirds_contrast(meters.EMPTY, 0.0, 1.0),
        statistics.mean_contrast(meters.EMPTY, 0.0, 1.0),
        statistics.level_contrast(meters.EMPTY, 0.0, 1.0, 10.0),
        statistics.spearman_rho(meters.EMPTY),
        statistics.kendall_tau(statistics.block_medians(meters.EMPTY, 0.0, 1.0)),
    ):
        assert np.isnan(figure)
    assert statistics.drift_per_s(meters.EMPTY, 0.0, 1.0) == 0.0


# -- curves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", curves.CURVES)
def test_progress_runs_from_0_to_1(curve: str) -> None:
    """Progress starts at 0, ends at 1, never goes back, and is held outside the clip."""
    u = np.linspace(-0.5, 1.5, 2001)
    found = curves.progress(curve, u)
    assert np.all(np.diff(found) >= 0.0)
    assert np.all(found[u <= 0.0] == 0.0)
    assert np.all(found[u >= 1.0] == 1.0)


def test_end_to_start_contrast_of_curves() -> None:
    """The mean of the last third less that of the first: 2/3 for the three ramps, 1 for the step, 0 for flat."""
    assert {curve: curves.end_to_start(curve) for curve in (*curves.CURVES, "flat")} == pytest.approx(
        {"linear": 2 / 3, "ease_in": 2 / 3, "ease_out": 2 / 3, "step": 1.0, "flat": 0.0}, abs=1e-6
    )
    u = (np.arange(3000) + 0.5) / 3000
    for curve in (*curves.CURVES, "flat"):
        shape = curves.progress(curve, u)
        assert shape[2000:].mean() - shape[:1000].mean() == pytest.approx(curves.end_to_start(curve), abs=1e-6)


@MANY
@given(st.sampled_from(curves.CURVES), st.floats(0.01, 24.0), st.floats(0.0, 1.0), st.floats(1.5, 5.0))
def test_up_and_down_mirror_about_zero(curve: str, span: float, start_s: float, end_s: float) -> None:
    """The falling plan is the rising one's negative, each moves by its span in all, and a sham doesn't move."""
    time_s = np.linspace(-0.5, 6.0, 200)
    up, down = (curves.planned(curve, sign * span, time_s, start_s, end_s) for sign in (1.0, -1.0))
    np.testing.assert_array_equal(up, -down)
    assert up[-1] - up[0] == pytest.approx(span)
    assert up[-1] == pytest.approx(span / 2.0)
    np.testing.assert_array_equal(curves.planned("flat", span, time_s, start_s, end_s), np.zeros(200))


@pytest.mark.parametrize("window_s", [0.05, 0.4])
@pytest.mark.parametrize("curve", curves.CURVES)
def test_planned_as_seen_averages_over_the_window(curve: str, window_s: float) -> None:
    """What a meter sees of a plan is its mean over the meter's window: as by a fine sum, to a fiftieth of the span."""
    time_s = np.linspace(0.0, 3.0, 61)
    found = curves.planned_as_seen(curve, 6.0, time_s, 0.3, 2.7, window_s)
    fine = (np.arange(5000) + 0.5) / 5000 * window_s - window_s / 2.0
    wanted = [curves.planned(curve, 6.0, centre_s + fine, 0.3, 2.7).mean() for centre_s in time_s]
    np.testing.assert_allclose(found, wanted, atol=6.0 / 50.0)
    np.testing.assert_array_equal(curves.planned_as_seen(curve, 6.0, time_s, 0.3, 2.7, 0.0), curves.planned(curve, 6.0, time_s, 0.3, 2.7))


def test_a_step_is_seen_as_wide_as_the_window() -> None:
    """A step seen through 400 ms is at its middle at its centre, and at its ends from 225 ms away on."""
    seen = curves.planned_as_seen("step", 10.0, np.array([1.0, 1.27, 1.5, 1.73, 2.0]), 0.0, 3.0, 0.4)
    np.testing.assert_allclose(seen, [-5.0, -5.0, 0.0, 5.0, 5.0], atol=1e-9)


# -- very short sounds, and repeatability -----------------------------------------------------------------------------

SHORT: dict[str, Callable[[int, int], FloatArray]] = {
    "silence": lambda n, rate: np.zeros(n),
    "noise": lambda n, rate: 0.1 * np.random.default_rng(n).standard_normal(n),
    "tone": lambda n, rate: 0.1 * np.sin(2.0 * np.pi * 220.0 * np.arange(n) / rate),
}


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("carrier", SHORT)
@pytest.mark.parametrize("name", [*METERS, *HEARD])
def test_very_short_sounds_have_no_value(name: str, carrier: str, sample_rate_hz: int) -> None:
    """0 samples, 1 sample, 10 ms and 50 ms: nothing to measure by any meter, and no exception from inside a library."""
    meter = {**METERS, **HEARD}[name]
    for n_samples in (0, 1, round(0.01 * sample_rate_hz), round(0.05 * sample_rate_hz)):
        found = meter(fit_for(name, Sound(SHORT[carrier](n_samples, sample_rate_hz), sample_rate_hz)))
        assert found.time_s.shape == found.value.shape
        assert not found.valid.any()


@pytest.mark.parametrize("carrier", SHORT)
@pytest.mark.parametrize("name", [*METERS, *HEARD])
def test_no_length_makes_a_meter_raise(name: str, carrier: str) -> None:
    """Every length from just under to just over each meter's window gives a contour, with or without a value."""
    meter = {**METERS, **HEARD}[name]
    for duration_s in (0.063, 0.064, 0.0699, 0.07, 0.0999, 0.1, 0.12, 0.3, 0.3999, 0.4, 0.46, 1.1999, 1.2):
        found = meter(fit_for(name, Sound(SHORT[carrier](round(duration_s * 16_000), 16_000), 16_000)))
        assert found.time_s.shape == found.value.shape
        assert found.counted is None or found.counted.shape == found.value.shape
        assert np.all(np.diff(found.time_s) > 0.0)


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_ten_measurements_are_exactly_equal(dimension: Dimension) -> None:
    """The same samples measured ten times, each time as a new sound, give the same bits, by every method that needs no parts."""
    envelope = 0.5 - 0.5 * np.cos(2.0 * np.pi * 4.0 * np.arange(32_000) / 16_000)
    samples = fit_for(dimension.name, Sound(envelope * glide(150.0, 4.0).samples, 16_000)).samples
    of_samples = () if dimension.basis == "parts" else (dimension.measure,)
    for how in (*of_samples, dimension.witness, *(held.measure for held in dimension.held_by)):
        contours = [how(Sound(samples.copy(), 16_000)) for _ in range(10)]
        assert contours[0].valid.any()
        for again in contours[1:]:
            np.testing.assert_array_equal(again.time_s, contours[0].time_s)
            np.testing.assert_array_equal(again.value, contours[0].value)


@given(st.integers(0, 2**32 - 1), st.integers(3_000, 60_000), st.integers(1, 2))
@FEW
def test_what_is_known_already_changes_nothing(seed: int, n_samples: int, n_channels: int) -> None:
    """Loudness level and sharpness are the same to the last bit whether or not the spectrogram was there before."""
    samples = np.random.default_rng(seed).standard_normal((n_samples, n_channels))[:, 0 if n_channels == 1 else slice(None)] * 0.05
    fresh, known = Sound(samples, 16_000), Sound(samples, 16_000)
    meters.spectrogram(known)
    for meter in (meters.loudness_level_phon, meters.sharpness_acum):
        one, other = meter(fresh), meter(known)
        np.testing.assert_array_equal(one.value, other.value)
        np.testing.assert_array_equal(one.time_s, other.time_s)
