"""The oracle: what its measures say of sounds made here, its intervals, and the command on a small dataset."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np
import pytest
from scipy import signal

import evaluation.oracle as oracle
from builder.__main__ import main as builder_main
from builder.dimensions import DIMENSIONS

ROOT = Path(__file__).parent.parent
RATE = 16_000
SECONDS = 3.0

FloatArray = oracle.FloatArray

TINY = """\
include: base.yaml
dimension: loudness
speech: {corpus: null}
tiers: {medium: 4.0}
curves: [linear]
pairs_per_cell: {train: 1, validation: 1, test: 2}
controls_per_kind: {train: 0, validation: 0, test: 3}
sources:
  - {kind: noise}
  - {kind: voice}
"""


# -- sounds whose property moves by a known amount -----------------------------------------------------------------------


def times(rate: int = RATE) -> FloatArray:
    """Three seconds, in seconds."""
    return np.arange(round(SECONDS * rate)) / rate


def course(time_s: FloatArray, change: float) -> FloatArray:
    """A straight line of mean 0 that rises by so much in all."""
    return change * (time_s / SECONDS - 0.5)


def white(rate: int = RATE, seed: int = 1) -> FloatArray:
    """White noise at 0.1 RMS."""
    return 0.1 * np.random.default_rng(seed).standard_normal(round(SECONDS * rate))


def train(f0_hz: FloatArray, rate: int = RATE, n_harmonics: int = 20) -> FloatArray:
    """Harmonics that fall by 6 dB per octave, on a changing F0."""
    phase = 2.0 * np.pi * np.cumsum(f0_hz) / rate
    return 0.1 * np.sum([np.sin(k * phase + k * k) / k for k in range(1, n_harmonics + 1)], axis=0)


def steady(rate: int = RATE) -> FloatArray:
    """A harmonic sound of 150 Hz."""
    return train(np.full(len(times(rate)), 150.0), rate)


def clicks(log_rate: FloatArray, rate: int = RATE) -> FloatArray:
    """Bursts of noise, four per second and ever faster."""
    within = np.mod(np.cumsum(4.0 * np.exp(log_rate)) / rate, 1.0)
    return white(rate) * np.exp(-within * 20.0)


def pitch_of(change: float) -> FloatArray:
    """A glide by so many octaves."""
    return train(200.0 * 2.0 ** course(times(), change))


def loudness_of(change: float) -> FloatArray:
    """Noise that grows by so many dB."""
    return white() * 10.0 ** (course(times(), change) / 20.0)


def tempo_of(change: float) -> FloatArray:
    """Bursts whose ln(rate) grows by so much."""
    return clicks(course(times(), change))


def brightness_of(change: float) -> FloatArray:
    """Low and high noise whose balance moves by so many dB."""
    high = signal.sosfilt(signal.butter(2, 1500.0, "highpass", fs=RATE, output="sos"), white())
    return (white() - high) + high * 10.0 ** (course(times(), change) / 20.0)


def formants_of(change: float) -> FloatArray:
    """Three resonances that rise together by so much in ln(frequency), block by block."""
    scale = np.exp(course(times(), change))
    source = train(np.full(len(scale), 120.0), n_harmonics=40)
    out = np.zeros(len(source))
    blocks = np.array_split(np.arange(len(source)), 60)
    for centre_hz, width_hz in ((600.0, 80.0), (1500.0, 100.0), (2600.0, 150.0)):
        state = np.zeros(2)
        part = np.zeros(len(source))
        for block in blocks:
            radius, angle = np.exp(-np.pi * width_hz / RATE), 2.0 * np.pi * centre_hz * scale[block[0]] / RATE
            poles = [1.0, -2.0 * radius * np.cos(angle), radius**2]
            part[block], state = signal.lfilter([1.0 - radius], poles, source[block], zi=state)
        out += part
    return out


def roughness_of(change: float) -> FloatArray:
    """Noise under 70 Hz modulation whose depth grows by so much."""
    return white() * (1.0 + (0.5 + course(times(), change)) * np.sin(2.0 * np.pi * 70.0 * times()))


def tremolo_of(change: float) -> FloatArray:
    """A harmonic sound under 5 Hz modulation whose depth grows by so much."""
    return steady() * (1.0 + (0.5 + course(times(), change)) * np.sin(2.0 * np.pi * 5.0 * times()))


def vibrato_of(change: float) -> FloatArray:
    """F0 that swings at 5.5 Hz, by ever more octaves."""
    return train(200.0 * 2.0 ** ((0.1 + course(times(), change)) * np.sin(2.0 * np.pi * 5.5 * times())))


def with_noise(change: float) -> FloatArray:
    """A harmonic sound in noise that grows by so many dB."""
    return steady() + 0.2 * white() * 10.0 ** (course(times(), change) / 20.0)


def hoarseness_of(change: float) -> FloatArray:
    """Pulses through a resonance, whose periods are the less regular the later, by ln(jitter)."""
    rng = np.random.default_rng(3)
    out, at = np.zeros(round(SECONDS * RATE)), 0.0
    while at < len(out) - 1:
        out[int(at)], out[int(at) + 1] = 1.0 - at % 1.0, at % 1.0
        at += RATE / 120.0 * (1.0 + 0.02 * np.exp(course(np.array(at / RATE), change)) * rng.standard_normal())
    return signal.lfilter([0.1], [1.0, -1.6, 0.8], out)


def reverberation_of(change: float) -> FloatArray:
    """Bursts in a room whose field grows by so many dB."""
    room = np.random.default_rng(5).standard_normal(RATE) * 10.0 ** (-3.0 * np.arange(RATE) / RATE / 0.6)
    dry = clicks(np.zeros(len(times())))
    wet = signal.fftconvolve(dry, room)[: len(dry)]
    return dry + wet * (0.3 * np.std(dry) / np.std(wet)) * 10.0 ** (course(times(), change) / 20.0)


def distortion_of(change: float) -> FloatArray:
    """Noise under a bend whose drive grows by so many dB."""
    drive = 10.0 ** (course(times(), change) / 20.0)
    return 0.1 * np.tanh(10.0 * white() * drive) / drive


def clarity_of(change: float) -> FloatArray:
    """Noise behind a steep low-pass whose cutoff rises by so many octaves, in thirds."""
    parts = [
        signal.sosfilt(signal.butter(8, 3000.0 * 2.0 ** (change * step), fs=RATE, output="sos"), white()) for step in (-0.33, 0.0, 0.33)
    ]
    return np.choose(np.minimum((times() / SECONDS * 3.0).astype(int), 2), parts)


def pan_of(change: float) -> FloatArray:
    """Noise that moves to the right by so many dB."""
    gain = 10.0 ** (course(times(), change) / 40.0)
    return np.stack([white() / gain, white() * gain], axis=1)


SOUNDS: dict[str, tuple[Callable[[float], FloatArray], float]] = {
    "pitch": (pitch_of, 0.05),
    "loudness": (loudness_of, 3.0),
    "tempo": (tempo_of, 0.15),
    "brightness": (brightness_of, 3.0),
    "formants": (formants_of, 0.15),
    "roughness": (roughness_of, 0.3),
    "tremolo": (tremolo_of, 0.2),
    "vibrato": (vibrato_of, 0.05),
    "breathiness": (with_noise, 10.0),
    "hoarseness": (hoarseness_of, 1.0),
    "noise": (with_noise, 10.0),
    "reverberation": (reverberation_of, 8.0),
    "distortion": (distortion_of, 6.0),
    "clarity": (clarity_of, 0.7),
    "pan": (pan_of, 3.0),
}


# -- measures -------------------------------------------------------------------------------------------------------------


def test_every_measure_is_of_a_dimension_and_has_a_sound_here() -> None:
    """No measure is untried, or of what no dimension is; a dimension may have none."""
    assert set(oracle.MEASURES) <= {dimension.name for dimension in DIMENSIONS}
    assert set(SOUNDS) == set(oracle.MEASURES)


def test_nothing_that_makes_labels_is_imported() -> None:
    """The oracle knows no line of the builder's code: it would be its own witness."""
    for path in (ROOT / "evaluation").glob("*.py"):
        named = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {alias.name for node in named for alias in node.names} | {getattr(node, "module", None) or "" for node in named}
        assert not {module for module in modules if module.split(".")[0] in ("builder", "parselmouth", "swift_f0", "metasona", "torch")}


@pytest.mark.parametrize("dimension", SOUNDS)
def test_a_known_sweep_is_heard_both_ways(dimension: str) -> None:
    """A sound that rises in a dimension is heard to rise, and its opposite to fall."""
    made, change = SOUNDS[dimension]
    up, down = (oracle.heard_change(dimension, made(sign * change), RATE) for sign in (1.0, -1.0))
    assert down < 0.0 < up


@pytest.mark.parametrize("dimension", SOUNDS)
@pytest.mark.parametrize("rate", [8_000, 48_000])
def test_no_sound_raises(dimension: str, rate: int) -> None:
    """Silence, blinks of noise and tone, one sample, a click, and two channels give a number or `nan` at any rate."""
    for n in (1, round(0.01 * rate), round(0.31 * rate), rate):
        for samples in (np.zeros(n), np.eye(1, n)[0], white(rate)[:n], steady(rate)[:n], np.stack([white(rate)[:n]] * 2, axis=1)):
            assert isinstance(oracle.heard_change(dimension, samples, rate), float)


@pytest.mark.parametrize("dimension", SOUNDS)
def test_level_and_sign_do_not_matter(dimension: str) -> None:
    """Turned down by 20 dB and with its polarity reversed, a sound says the same: nothing depends on a level."""
    made, change = SOUNDS[dimension]
    loud = oracle.heard_change(dimension, made(change), RATE)
    assert oracle.heard_change(dimension, -0.1 * made(change), RATE) == pytest.approx(loud, rel=0.1)


def test_yin_reads_f0() -> None:
    """F0 of a harmonic sound to a hundredth of a semitone, and hardly any aperiodicity; noise has much."""
    f0_hz, aperiodicity = oracle.yin(steady(), RATE)
    assert np.abs(12.0 * np.log2(np.median(f0_hz) / 150.0)) < 0.01
    assert np.median(aperiodicity) < 0.01
    assert np.median(oracle.yin(white(), RATE)[1]) > 0.3


def test_pitch_keeps_its_octave_where_the_second_harmonic_takes_over() -> None:
    """A path through the clip doesn't jump where half the period is nearly as good."""
    time_s, phase = times(), 2.0 * np.pi * 150.0 * times()
    grows = np.linspace(0.0, 1.0, len(time_s))
    f0 = oracle.pitch((1.0 - 0.6 * grows) * np.sin(phase) + 1.2 * grows * np.sin(2.0 * phase), RATE)
    assert np.ptp(f0[np.isfinite(f0)]) < 0.1


@pytest.mark.parametrize(("frequency_hz", "level_db"), [(63.0, -26.2), (100.0, -19.1), (1000.0, 0.0), (4000.0, 1.0), (8000.0, -1.1)])
def test_a_weighting_is_the_standards(frequency_hz: float, level_db: float) -> None:
    """IEC 61672-1, table 3, to its rounding."""
    assert 10.0 * np.log10(oracle.a_weighting(np.array([frequency_hz]))[0]) == pytest.approx(level_db, abs=0.06)


def test_loudness_reads_a_ramp() -> None:
    """A ramp of 9 dB is 6 dB from the middle of the first third to that of the last."""
    assert oracle.heard_change("loudness", loudness_of(9.0), RATE) == pytest.approx(6.0, abs=0.2)


@pytest.mark.parametrize("change", [-0.4, -0.1, 0.1, 0.4])
def test_tempo_reads_a_glide(change: float) -> None:
    """The glide of a row of bursts, in ln(rate), to a tenth and 0.02."""
    assert oracle.heard_change("tempo", tempo_of(change), RATE) == pytest.approx(change, rel=0.1, abs=0.02)


def test_formants_read_a_shift_and_no_tilt() -> None:
    """Two thirds of a shift of resonances, to a third of it; a tilt or a gain shifts nothing."""
    assert oracle.heard_change("formants", formants_of(0.3), RATE) == pytest.approx(0.2, rel=0.33)
    still = formants_of(0.0)
    tilted = signal.lfilter([1.0, -0.5], [1.0], still)
    mixed = still + (tilted - still) * (times() / SECONDS)
    assert abs(oracle.heard_change("formants", mixed * np.exp(times()), RATE)) <= 0.015


def test_periods_are_those_of_the_pulses() -> None:
    """Period by period, the lengths that a sound was made with."""
    found = oracle.periods(steady(), RATE)
    assert np.median(found[:, 1]) == pytest.approx(1.0 / 150.0, rel=1e-3)
    assert np.diff(found[:, 0]) == pytest.approx(1.0 / 150.0, abs=1.0 / RATE)


def test_swing_is_the_rms_of_a_sine() -> None:
    """A sine of amplitude 2 in the band has an RMS of root 2; one outside has nearly none."""
    time_s = np.arange(400) * 0.01
    inside, outside = (oracle.swing(2.0 * np.sin(2.0 * np.pi * rate_hz * time_s), 0.01, 3.5, 8.5) for rate_hz in (5.5, 0.5))
    assert np.median(inside) == pytest.approx(np.sqrt(2.0), rel=0.05)
    assert np.median(outside) < 0.02


def test_noise_reads_its_level_over_the_signals() -> None:
    """Noise at -6 dB re a harmonic sound, to 2 dB."""
    harmonic = steady()
    mixed = harmonic + white() * 0.5 * np.std(harmonic) / np.std(white())
    assert np.median(oracle.noise(mixed, RATE)) == pytest.approx(-6.0, abs=2.0)


def test_pan_is_an_angle() -> None:
    """All left is 0, the middle 1/2, all right 1; a mono sound has none."""
    sides = [np.outer(white(), gains) for gains in ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0))]
    assert [float(np.median(oracle.pan(side, RATE))) for side in sides] == pytest.approx([0.0, 0.5, 1.0])
    assert oracle.pan(white(), RATE).size == 0


# -- answers and scores ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [["increase", "decrease"], ["decrease", "increase"], ["right", "left"], ["left", "right"]])
def test_the_answer_is_one_of_the_choices_in_either_order(choices: list[str]) -> None:
    """A rise is `increase` or `right`; without a change there is no answer."""
    rise, fall = sorted(choices, key=lambda choice: choice not in oracle.RISES)
    assert (oracle.answer(choices, 0.1), oracle.answer(choices, -0.1)) == (rise, fall)
    assert oracle.answer(choices, float("nan")) is oracle.answer(choices, 0.0) is None


def test_change_is_last_third_less_first() -> None:
    """Medians of outer thirds, gaps left out; `nan` where a third is empty."""
    assert oracle.change(np.array([1.0, np.nan, 1.0, 9.0, 9.0, 9.0, 4.0, 4.0, 400.0])) == 3.0
    assert np.isnan(oracle.change(np.array([np.nan, np.nan, 1.0, 1.0, 1.0, 1.0])))


def test_wilson_is_wilsons() -> None:
    """The interval of 9 in 10, and of 0 in 10, as tables have it."""
    assert oracle.wilson(0.9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert oracle.wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_clips_of_one_source_count_as_what_they_are_worth() -> None:
    """Independent clips: Wilson's own. Clips that repeat their source's answer: one each. Opposite clips: no more than all."""
    hits = [True] * 30 + [False] * 10
    names = [str(i) for i in range(40)]
    alone = oracle.wilson(0.75, 40)
    assert oracle.interval(hits, names) == pytest.approx(alone)
    assert oracle.interval(hits * 5, names * 5) == pytest.approx(alone)
    assert oracle.interval([True, False] * 20, [str(i // 2) for i in range(40)]) == pytest.approx(oracle.wilson(0.5, 40))
    assert oracle.interval([True] * 40, [str(i // 4) for i in range(40)]) == pytest.approx(oracle.wilson(1.0, 10))


def test_an_error_more_never_raises_the_interval() -> None:
    """From all right downwards both ends fall, to half a percent, however many clips a source has."""
    for per_source in (1, 2, 8):
        names = [str(i // per_source) for i in range(80)]
        ends = [oracle.interval([i >= wrong for i in range(80)], names) for wrong in range(81)]
        assert np.all(np.diff(ends, axis=0) < 0.005)


def test_the_interval_covers() -> None:
    """Of clusters that are each right or wrong as a whole in 80 %, the interval holds 0.8 about 95 times in 100."""
    rng = np.random.default_rng(7)
    names = [str(i // 4) for i in range(200)]
    found = [oracle.interval(list(np.repeat(rng.random(50) < 0.8, 4)), names) for _ in range(400)]
    assert 0.92 <= np.mean([low <= 0.8 <= high for low, high in found]) <= 0.98


def test_controls_that_nobody_can_tell_have_no_share() -> None:
    """Where no control is answered, there's a dash in the table and null in the file."""
    item = oracle.Answered("a", "pan", "none", "flat", "noise", "s", rise=0.0, given=None, right=None)
    lines = oracle.scores([item], None, controls=True)
    assert (lines[0].clips, lines[0].silent, lines[0].share, lines[0].low) == (1, 1, None, None)
    assert oracle.table(lines, controls=True).splitlines()[1].split() == ["pan", "1", "1", "-"]


# -- the command ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of a few pairs and controls of noise and voices."""
    folder = tmp_path_factory.mktemp("oracle")
    shutil.copy(ROOT / "recipes" / "base.yaml", folder)
    (folder / "tiny.yaml").write_text(TINY)
    assert builder_main(["build", "--recipe", str(folder / "tiny.yaml"), "--out", str(folder / "ds"), "--workers", "1"]) == 0
    return folder / "ds"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows aren't kept in the user's cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def test_a_whole_run(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of a sure dataset is right; the table says so by kind, and the file has every item."""
    assert oracle.main(["--dataset", str(tiny), "--by", "source_kind", "--json", str(tmp_path / "out.json"), "--workers", "1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["dimension", "clips", "no", "answer", "right", "95", "%", "interval"]
    assert [line.split()[:4] for line in told[1:]] == [
        ["loudness", "8", "0", "100.0%"],
        ["noise", "4", "0", "100.0%"],
        ["voice", "4", "0", "100.0%"],
        ["overall", "8", "0", "100.0%"],
    ]
    content = json.loads((tmp_path / "out.json").read_text())
    assert [line["name"] for line in content["scores"]] == ["loudness", "  noise", "  voice", "overall"]
    assert len(content["items"]) == 8
    assert all(item["given"] == item["right"] for item in content["items"])


def test_workers_change_nothing(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two processes print what one prints."""
    printed = []
    for workers in ("1", "2"):
        assert oracle.main(["--dataset", str(tiny), "--config", "loudness", "--workers", workers]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_controls_have_a_share_of_rises(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Controls are answered too, and nobody says what would be right."""
    assert oracle.main(["--dataset", str(tiny), "--controls", "--workers", "1"]) == 0
    head, line, _ = capsys.readouterr().out.splitlines()
    assert "rises" in head
    assert line.split()[:2] == ["loudness", "6"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dataset", "nowhere"], "no folder 'nowhere' here: build it with `make build`, or name another with --dataset"),
        (["--dataset", "{empty}"], "can't be read as a dataset"),
        (["--dataset", "{tiny}", "--config", "loudnes"], "has no configuration 'loudnes': did you mean 'loudness'?"),
        (["--dataset", "{tiny}", "--config", "xyz"], "has no configuration 'xyz': there are "),
        (["--dataset", "{tiny}", "--config", "controls"], "ask for their share of rises with --controls"),
        (["--dataset", "{tiny}", "--split", "tst"], "split 'tst'"),
    ],
)
def test_faults_are_told_without_a_traceback(
    arguments: list[str], told: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message on stderr that says what's wrong, and exit status 1."""
    (tmp_path / "empty").mkdir()
    assert oracle.main([argument.format(tiny=tiny, empty=tmp_path / "empty") for argument in arguments]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("oracle: ")
    assert told in captured.err
    assert captured.out == ""


def test_a_foreign_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dataset without our columns is named with the first that are missing."""
    folder = tmp_path / "foreign"
    (folder / "data").mkdir(parents=True)
    datasets.Dataset.from_dict({"id": ["a"], "text": ["b"]}).to_parquet(folder / "data" / "test.parquet")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: pitch\n  data_files:\n  - {split: test, path: data/test.parquet}\n---\n"
    )
    assert oracle.main(["--dataset", str(folder), "--workers", "1"]) == 1
    assert "configuration 'pitch' has no column audio, choices, answer" in capsys.readouterr().err


def test_an_unknown_dimension_is_left_out_and_named(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What there is no measure for is said on stderr; with nothing else there, that's an error."""
    monkeypatch.delitem(oracle.MEASURES, "loudness")
    for arguments in (["--config", "all"], []):
        assert oracle.main(["--dataset", str(tiny), *arguments, "--workers", "1"]) == 1
        told = capsys.readouterr().err.splitlines()
        assert told[-1] == "oracle: there is no item to answer"
        assert told[0] == "oracle: not asked, it has no measure of loudness"


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage ends with 2."""
    with pytest.raises(SystemExit, match="2"):
        oracle.main(["--by", "nothing"])
    assert sys.modules["evaluation.oracle"] is oracle
