"""Two channels, from the pan law to the built dataset: known answers of meters, and what pan's clips are."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile
import yaml
from test_meters import glide, sine, sloped, white

from builder import dataset, label, measure, pipeline, render, sources, validate
from builder.__main__ import main
from builder.acoustics import audio, filters, meters, stereo
from builder.dimensions import BY_NAME, DIMENSIONS
from builder.fetch import sha256_of
from builder.layout import read_manifest, read_rows
from builder.pipeline import Built
from builder.recipe import SpeechRule
from builder.records import FloatArray, PairPlan, Sound, Source
from builder.rows import question
from builder.synthesis import drawn
from builder.workers import Local

RECIPES = Path(__file__).parent.parent / "recipes"
PAN = BY_NAME["pan"]


def both(sound: Sound, right_db: float = 0.0) -> Sound:
    """The same samples in both channels, the right one with a gain."""
    return sound.each(lambda samples: np.stack([samples, 10.0 ** (right_db / 20.0) * samples], axis=1))


def ramp_db(sound: Sound, start_db: float, end_db: float) -> FloatArray:
    """A straight line over a sound's samples."""
    return np.linspace(start_db, end_db, len(sound.samples))


# -- meters of two channels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample_rate_hz", [16_000, 48_000])
def test_two_identical_channels_are_3_lu_louder_than_one(sample_rate_hz: int) -> None:
    """BS.1770 sums the channels' powers: the same samples in both read 10 log10 2 = +3.01 LU over one alone."""
    sound = white(1, sample_rate_hz)
    one, two = (meters.momentary_loudness_lufs(each).value for each in (sound, both(sound)))
    np.testing.assert_allclose(two - one, 10.0 * np.log10(2.0), atol=1e-9)


def test_a_silent_second_channel_adds_nothing() -> None:
    """A sound in one of two channels reads what it reads in mono, by level, loudness, loudness level and tilt."""
    sound = white(2)
    lone = Sound(np.stack([sound.samples, np.zeros_like(sound.samples)], axis=1), sound.sample_rate_hz)
    for meter in (meters.frame_level_db, meters.momentary_loudness_lufs, meters.loudness_level_phon, meters.spectral_tilt_db_per_octave):
        np.testing.assert_allclose(meter(lone).value, meter(sound).value, rtol=1e-12)


def test_the_spectrogram_sums_powers_and_not_samples() -> None:
    """Of two channels in opposite phase the power is twice one's, where their sum would be silent."""
    sound = white(3)
    opposite = Sound(np.stack([sound.samples, -sound.samples], axis=1), sound.sample_rate_hz)
    np.testing.assert_allclose(meters.spectrogram(opposite)[1], 2.0 * meters.spectrogram(sound)[1], rtol=1e-9)


def test_f0_and_events_are_those_of_the_mean() -> None:
    """F0 and events of a stereo sound are those of the mean of its channels."""
    envelope = 0.55 - 0.45 * np.cos(2.0 * np.pi * 4.0 * np.arange(32_000) / 16_000)
    first, second = envelope * glide(150.0, 4.0).samples, envelope * 0.01 * np.random.default_rng(0).standard_normal(32_000)
    wide, mean = Sound(np.stack([first, second], axis=1), 16_000), Sound((first + second) / 2.0, 16_000)
    for meter in (meters.f0_semitones, meters.event_rate_log, meters.periodicity_rate_log):
        np.testing.assert_array_equal(meter(wide).value, meter(mean).value)
        assert meter(wide).valid.any()


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_every_meter_takes_two_channels(dimension: Any) -> None:
    """Measure, witness and held measures of each dimension take stereo; the same samples in both channels give mono's frames."""
    sound = glide(150.0, 4.0)
    for how in (dimension.measure, dimension.witness, *(held.measure for held in dimension.held_by)):
        wide, mono = how(both(sound)), how(sound)
        if not dimension.stereo:
            np.testing.assert_array_equal(wide.time_s, mono.time_s)


# -- level difference between the ears --------------------------------------------------------------------------------

DIFFERENCE: dict[str, Callable[[Sound], Any]] = {"windows": stereo.level_difference_db, "bands": stereo.band_level_difference_db}


@pytest.mark.parametrize("sample_rate_hz", [8_000, 16_000, 44_100])
@pytest.mark.parametrize("method", DIFFERENCE)
def test_a_gain_on_one_channel_is_read_in_decibels(method: str, sample_rate_hz: int) -> None:
    """The same samples with a gain on the right read that gain in every frame, at any rate, to a thousandth of a dB."""
    for gain_db in (-30.0, -6.0, 0.0, 1.0, 12.0):
        found = DIFFERENCE[method](both(white(4, sample_rate_hz), gain_db))
        assert found.valid.all()
        np.testing.assert_allclose(found.value, gain_db, atol=1e-3)


@pytest.mark.parametrize("method", DIFFERENCE)
def test_mono_has_no_position(method: str) -> None:
    """One channel, or three, have no level difference between two: an empty contour and no exception."""
    for sound in (white(5), Sound(np.zeros((16_000, 3)), 16_000)):
        assert DIFFERENCE[method](sound).value.size == 0


@pytest.mark.parametrize("method", DIFFERENCE)
def test_one_channel_alone_is_held_at_60_db(method: str) -> None:
    """A sound in the right channel alone reads +60 dB, and in the left alone -60: a number, never inf."""
    sound = white(6)
    for sign, order in ((1.0, [1, 0]), (-1.0, [0, 1])):
        samples = np.stack([sound.samples, np.zeros_like(sound.samples)], axis=1)[:, order]
        np.testing.assert_allclose(DIFFERENCE[method](Sound(samples, 16_000)).value, sign * 60.0)


@pytest.mark.parametrize("method", DIFFERENCE)
@pytest.mark.parametrize("carrier", [white(7), sloped(-6.0, 7), sine(440.0, -20.0)], ids=["white", "steep", "sine"])
def test_a_pan_is_read_as_it_was_made(method: str, carrier: Sound) -> None:
    """A pan from 12 dB left to 12 dB right reads the line at the frames' centres, to 0.3 dB, after rounding to 16 bit."""
    made = audio.rounded_to_pcm16(stereo.panned(carrier, ramp_db(carrier, -12.0, 12.0)))
    found = DIFFERENCE[method](made)
    wanted = -12.0 + 24.0 * found.time_s / made.duration_s
    assert found.valid.all()
    np.testing.assert_allclose(found.value, wanted, atol=0.3)


def test_an_offset_is_no_position() -> None:
    """A constant offset in one channel doesn't pull the level difference: what lies under 50 Hz isn't counted."""
    sound = both(white(8))
    shifted = Sound(sound.samples + np.array([0.0, 0.03]), 16_000)
    settled = stereo.level_difference_db(shifted)
    assert np.abs(np.median(settled.value)) < 0.05


# -- the pan law ------------------------------------------------------------------------------------------------------


def test_the_pan_law_has_constant_power() -> None:
    """The squares of both channels add up to the source's at every sample, and their ratio is the difference asked for."""
    sound = white(9)
    asked_db = ramp_db(sound, -12.0, 12.0)
    made = stereo.panned(sound, asked_db)
    np.testing.assert_allclose(np.sum(made.samples**2, axis=1), sound.samples**2, rtol=1e-12)
    np.testing.assert_allclose(20.0 * np.log10(made.samples[:, 1] / made.samples[:, 0]), asked_db, atol=1e-9)
    np.testing.assert_allclose(meters.momentary_loudness_lufs(made).value, meters.momentary_loudness_lufs(sound).value, atol=0.01)


def clips(kind: str = "noise", span: float = 12.0) -> tuple[PairPlan, Source, dict[int, Sound]]:
    """A pair of pan on a synthetic source, its sham, and its clips by sign."""
    spec = drawn(kind, "test", 0, 1)
    source = sources.realise(spec, 16_000, {}, SpeechRule(corpus=None))
    pair = PairPlan("pan", "easy", "linear", "test", span, span * 2.0 / 3.0, 1.0, spec, 1.0, 16_000)
    return pair, source, {sign: render.clip(pair, source, sign) for sign in (1, -1, 0)}


def test_up_is_right_and_down_is_left() -> None:
    """The rising clip ends louder on the right, the falling one on the left, the sham has the same samples in both."""
    _, _, made = clips()
    third = len(made[0].samples) // 3
    for sign in (1, -1):
        left, right = (np.mean(channel[-third:] ** 2) for channel in made[sign].channels)
        assert sign * 10.0 * np.log10(right / left) == pytest.approx(4.0, abs=0.2)
    np.testing.assert_array_equal(*made[0].channels)
    assert PAN.answers == ("right", "left")
    assert question(PAN, ["left", "right"]) == "Does this sound move to the left or to the right over time?"


def test_the_mean_of_the_channels_tells_nothing() -> None:
    """Downmixed, the rising and the falling clip are the same sound but for a 16-bit step, and softer at the ends by under 0.5 dB."""
    _, source, made = clips()
    np.testing.assert_allclose(made[1].mono, made[-1].mono, atol=1.0 / 32768.0)
    change = meters.momentary_loudness_lufs(Sound(made[1].mono, 16_000)).value - meters.momentary_loudness_lufs(source.sound).value
    assert 0.2 < np.ptp(change) < 0.5


def test_silence_moves_nowhere() -> None:
    """A silent source gives two silent channels, which have no position."""
    quiet = stereo.panned(Sound(np.zeros(16_000), 16_000), np.linspace(-6.0, 6.0, 16_000))
    assert quiet.samples.shape == (16_000, 2)
    for how in DIFFERENCE.values():
        assert not how(quiet).valid.any()


def test_parts_are_panned_along() -> None:
    """What a sound was mixed from gets the same gains as the mix, and still adds up to it."""
    voice, hiss = white(10).samples, white(11).samples
    made = stereo.panned(Sound(voice + hiss, 16_000, {"voice": voice, "hiss": hiss}), np.full(len(voice), 6.0))
    np.testing.assert_allclose(made.parts["voice"] + made.parts["hiss"], made.samples, atol=1e-12)


def test_a_gain_over_time_is_the_same_in_both_channels() -> None:
    """A gain in dB per sample scales each channel alike: the level difference stays."""
    sound = both(white(12), -4.0)
    made = filters.scaled_by_db(sound, ramp_db(sound, -6.0, 6.0))
    np.testing.assert_allclose(stereo.level_difference_db(made).value, -4.0, atol=1e-3)


# -- files ------------------------------------------------------------------------------------------------------------


def test_stereo_survives_flac() -> None:
    """Sixteen-bit stereo comes back from FLAC to the sample, in order left, right, and in two channels for other readers."""
    _, _, made = clips()
    content = audio.flac_bytes(made[1])
    again = audio.from_flac(content)
    assert again.samples.shape == made[1].samples.shape
    np.testing.assert_array_equal(again.samples, made[1].samples)
    assert label.hear(measure.measure(again, PAN), 0.0, again.duration_s).contrast > 7.0


def test_measure_reads_stereo_files_and_mono_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`vocalgrad measure` gives a stereo file a position, a mono file none, and both all else."""
    _, _, made = clips("voice")
    for name, samples in (("stereo.flac", made[1].samples), ("mono.wav", made[1].mono)):
        soundfile.write(tmp_path / name, samples, 16_000, subtype="PCM_16")
        assert main(["measure", str(tmp_path / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert bool(found["pan"]["value"]) == (name == "stereo.flac")
        assert any(value is not None for value in found["pitch"]["value"])
    assert main(["measure", str(tmp_path / "mono.wav")]) == 0
    assert re.search(r"^pan +nan +nan +0%  dB$", capsys.readouterr().out, re.M)


# -- a built dataset --------------------------------------------------------------------------------------------------

SMALL = {
    "include": str(RECIPES / "base.yaml"),
    "speech": {"corpus": None},
    "kinds": ["noise"],
    "splits": {"train": {"share": 0.5}, "test": {"share": 0.5}},
    "tiers": {"medium": 4.0},
    "curves": ["linear", "step"],
    "pairs_per_cell": {"train": 1, "test": 1},
    "controls_per_kind": {"train": 1, "test": 1},
}


def built(folder: Path, *names: str) -> Built:
    """A small dataset of some dimensions on noise."""
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "dimensions": [str(RECIPES / f"{name}.yaml") for name in names]}), encoding="utf-8")
    return pipeline.build(path, None, folder / "vocalgrad", Local(1), lambda line: None)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Loudness and pan."""
    return built(tmp_path_factory.mktemp("mixed"), "loudness", "pan")


def configs_of(root: Path) -> dict[str, Any]:
    """The card's configurations by name."""
    return {config["config_name"]: config for config in front_matter(root)["configs"]}


def front_matter(root: Path) -> dict[str, Any]:
    """What `datasets` reads of the card."""
    found: dict[str, Any] = yaml.safe_load((root / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    return found


def paths_of(config: dict[str, Any]) -> set[str]:
    """Folders of a configuration's files."""
    return {path.split("/")[1] for split in config["data_files"] for path in split["path"]}


def test_all_is_every_mono_dimension(mixed: Built) -> None:
    """`all` is the default and leaves stereo dimensions out; they have a configuration of their own; the counts are exact."""
    configs = configs_of(mixed.out)
    assert list(configs) == ["all", "loudness", "pan", "controls"]
    assert [name for name, config in configs.items() if config.get("default")] == ["all"]
    assert {name: paths_of(config) for name, config in configs.items()} == {
        "all": {"loudness"},
        "loudness": {"loudness"},
        "pan": {"pan"},
        "controls": {"controls"},
    }
    counts = {
        info["config_name"]: {s["name"]: s["num_examples"] for s in info["splits"]} for info in front_matter(mixed.out)["dataset_info"]
    }
    assert counts["all"] == counts["pan"] == {"train": 4, "test": 4}
    text = (mixed.out / "README.md").read_text(encoding="utf-8")
    assert "Clips of pan have two channels, in `controls` too; all others have one, and are what is in the configuration `all`." in text
    assert "A model that hears their mean hears nothing that tells the answer" in text


def test_pan_alone_is_its_own_default(tmp_path: Path) -> None:
    """A build of stereo dimensions only has a default configuration too, of all its clips; and the bare name loads it."""
    out = built(tmp_path, "pan").out
    configs = configs_of(out)
    assert list(configs) == ["all", "pan", "controls"]
    assert configs["all"]["default"] is True
    assert paths_of(configs["all"]) == {"pan"}
    assert "all others have one" not in (out / "README.md").read_text(encoding="utf-8")
    from datasets import Audio, load_dataset

    loaded = load_dataset(str(out), cache_dir=str(tmp_path / "cache")).cast_column("audio", Audio(decode=False))
    assert {name: len(split) for name, split in loaded.items()} == {"train": 4, "test": 4}
    for row in loaded["test"]:
        assert audio.from_flac(row["audio"]["bytes"]).samples.ndim == 2
        assert row["choices"][row["answer_index"]] == ("right" if row["direction"] == 0 else "left")


def test_a_pan_clip_is_made_again_and_labelled_again(mixed: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`render`, `label` and `show` take a stereo clip: the same bytes, the same direction, and a picture."""
    shard = next(item["shard"] for item in read_manifest(mixed.out)["shards"] if item["shard"].startswith("pan/test"))
    row = read_rows(mixed.out, shard)[0]
    where = [row["id"], "--dataset", str(mixed.out)]
    recipe = ["--recipe", str(mixed.out.parent / "small.yaml")]
    assert main(["render", *where, *recipe, "--to", str(tmp_path / "again.flac")]) == 0
    assert (tmp_path / "again.flac").read_bytes() == row["audio"]["bytes"]
    assert main(["label", *where]) == 0
    assert "dB (published" in capsys.readouterr().out
    assert main(["show", *where, *recipe, "--to", str(tmp_path / "clip.png")]) == 0
    assert (tmp_path / "clip.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "change", "shape"),
    [("pan", lambda sound: Sound(sound.mono, 16_000), r"\(\d+,\)"), ("loudness", both, r"\(\d+, 2\)")],
)
def test_validate_finds_the_wrong_number_of_channels(
    mixed: Built, tmp_path: Path, name: str, change: Callable[[Sound], Sound], shape: str
) -> None:
    """A mono clip in pan and a stereo clip in loudness are faults with rate and shape, however well their checksums fit."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(mixed.out, out)
    manifest = json.loads((out / "manifest.json").read_text())
    item = next(item for item in manifest["shards"] if item["shard"].startswith(f"{name}/test"))
    path = out / "data" / f"{item['shard']}.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    content = audio.flac_bytes(audio.rounded_to_pcm16(change(audio.from_flac(rows[0]["audio"]["bytes"]))))
    rows[0]["audio"]["bytes"], rows[0]["audio_sha256"] = content, hashlib.sha256(content).hexdigest()
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), path)
    item["parquet_sha256"] = sha256_of(path)
    (out / "manifest.json").write_text(json.dumps(manifest))
    faults = validate.check(out, dataset.heard_again)
    assert any(re.fullmatch(rf"{rows[0]['id']}: 16000 Hz, shape {shape}", fault) for fault in faults), faults


def test_a_mixed_build_is_valid(mixed: Built) -> None:
    """Mono and stereo shards beside each other validate without a fault."""
    assert validate.check(mixed.out, dataset.heard_again) == []
