"""Audio as samples and as bytes: 16 bit is exact or refused, never clipped; shards are whole or not there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow.parquet as pq
import pyloudnorm
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import layout, shard
from builder.acoustics import audio, meters, voice
from builder.dimensions import MEASURES
from builder.errors import DiskFull, Refused
from builder.records import FloatArray, Sound
from builder.sources import Gathered, realise

RATE_HZ = 16_000
ALL_STEPS = np.arange(-32768, 32768, dtype=np.int16)


def sine(frequency_hz: float = 440.0, peak: float = 0.2, duration_s: float = 2.0, rate_hz: int = RATE_HZ) -> Sound:
    """A sine."""
    time_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    return Sound(peak * np.sin(2.0 * np.pi * frequency_hz * time_s), rate_hz)


def noise(n_samples: int, seed: int = 1, level: float = 0.1) -> FloatArray:
    """White noise, as float64."""
    return np.random.default_rng(seed).normal(0.0, level, n_samples).clip(-0.99, 0.99)


# -- rounding ---------------------------------------------------------------------------------------------------------


def test_16_bit_to_float_to_16_bit_is_the_identity() -> None:
    """All 65,536 values survive: as float64, through rounding, and through FLAC, at both ends of the scale."""
    sound = Sound(ALL_STEPS / audio.PCM16_SCALE, RATE_HZ)
    rounded = audio.rounded_to_pcm16(sound)
    np.testing.assert_array_equal(rounded.samples, sound.samples)
    np.testing.assert_array_equal(np.rint(rounded.samples * 32768.0).astype(np.int16), ALL_STEPS)
    decoded = audio.from_flac(audio.flac_bytes(sound))
    np.testing.assert_array_equal(np.rint(decoded.samples * 32768.0).astype(np.int16), ALL_STEPS)


@settings(deadline=None)
@given(samples=st.lists(st.floats(-1.0, 1.0 - 2.0**-15), min_size=1, max_size=300))
def test_rounding_moves_a_sample_by_half_a_step_at_most(samples: list[float]) -> None:
    """And rounding again moves nothing."""
    sound = Sound(np.array(samples), RATE_HZ)
    rounded = audio.rounded_to_pcm16(sound)
    assert np.max(np.abs(rounded.samples - sound.samples)) <= 0.5 / 32768.0
    np.testing.assert_array_equal(audio.rounded_to_pcm16(rounded).samples, rounded.samples)


def test_halves_round_to_even() -> None:
    """`rint`: so that rounding has no direction of its own."""
    steps = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    np.testing.assert_array_equal(audio.rounded_to_pcm16(Sound(steps / 32768.0, RATE_HZ)).samples * 32768.0, [-2, -2, 0, 0, 2, 2])


@pytest.mark.parametrize("write", [audio.rounded_to_pcm16, audio.flac_bytes])
@pytest.mark.parametrize(("peak", "told"), [(1.5, "+3.52"), (-1.5, "+3.52"), (1.0, "+0.00"), (-1.0001, "+0.00")])
def test_beyond_full_scale_is_refused_never_clipped(write: Any, peak: float, told: str) -> None:
    """A ramp to 1.5 is an error that says by how much and what to do; so is 1.0, which 16 bit can't hold."""
    with pytest.raises(ValueError, match=rf"^peak {re.escape(told)} dBFS is beyond full scale; scale the sound by plan, not by clipping$"):
        write(Sound(np.linspace(0.0, peak, 1000), RATE_HZ))


@pytest.mark.parametrize("peak", [32767 / 32768, -1.0])
def test_up_to_full_scale_is_kept(peak: float) -> None:
    """The last steps that 16 bit can hold, on both sides."""
    ramp = Sound(np.linspace(0.0, peak, 1000), RATE_HZ)
    decoded = audio.from_flac(audio.flac_bytes(ramp))
    assert decoded.samples[-1] == peak
    assert np.max(np.abs(decoded.samples - ramp.samples)) <= 0.5 / 32768.0


@pytest.mark.parametrize("write", [audio.rounded_to_pcm16, audio.flac_bytes])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_before_anything_is_written(write: Any, bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One NaN or infinite sample is a clear error; the encoder never sees it."""
    monkeypatch.setattr(soundfile, "write", lambda *args, **more: pytest.fail("the encoder was reached"))
    samples = np.zeros(1000)
    samples[500] = bad
    with pytest.raises(ValueError, match=r"^samples must be finite before they're rounded to 16 bit$"):
        write(Sound(samples, RATE_HZ))


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_flac_gives_back_what_was_rounded(rate_hz: int, channels: int) -> None:
    """Exactly after rounding, within one step before; the same rate, shape and place: nothing is shifted or cut."""
    samples = noise(rate_hz * channels).reshape(rate_hz, channels)
    samples[:200] = 0.0
    samples[200] = 0.9
    sound = Sound(samples[:, 0] if channels == 1 else samples, rate_hz)
    decoded = audio.from_flac(audio.flac_bytes(sound))
    assert (decoded.samples.shape, decoded.sample_rate_hz) == (sound.samples.shape, rate_hz)
    np.testing.assert_array_equal(decoded.samples, audio.rounded_to_pcm16(sound).samples)
    assert np.max(np.abs(decoded.samples - sound.samples)) < 1.0 / 32768.0
    assert np.argmax(np.abs(decoded.samples.reshape(rate_hz, -1)[:, 0])) == 200


@settings(deadline=None, max_examples=40)
@given(steps=st.lists(st.integers(-32768, 32767), min_size=1, max_size=400))
def test_any_16_bit_sound_survives_flac(steps: list[int]) -> None:
    """However short or odd: as long, and the same."""
    sound = Sound(np.array(steps) / 32768.0, RATE_HZ)
    np.testing.assert_array_equal(audio.from_flac(audio.flac_bytes(sound)).samples, sound.samples)


def test_the_same_sound_is_the_same_flac() -> None:
    """Byte by byte, whatever was encoded in between."""
    sound = Sound(noise(RATE_HZ), RATE_HZ)
    first = audio.flac_bytes(sound)
    audio.flac_bytes(sine())
    assert audio.flac_bytes(Sound(sound.samples.copy(), RATE_HZ)) == first
    assert first[:4] == b"fLaC"


def test_encoding_leaves_its_input_alone() -> None:
    """The samples that were measured are still there afterwards."""
    samples = noise(1000)
    kept = samples.copy()
    audio.flac_bytes(Sound(samples, RATE_HZ))
    audio.faded(Sound(samples, RATE_HZ))
    audio.at_reference_level(Sound(np.tile(samples, 32), RATE_HZ))
    np.testing.assert_array_equal(samples, kept)


# -- level, ends, active region ---------------------------------------------------------------------------------------


def padded(samples: FloatArray, before_s: float, after_s: float, rate_hz: int = RATE_HZ) -> Sound:
    """Samples between two stretches of faint noise."""
    ends = [noise(round(length_s * rate_hz), seed, 1e-5) for seed, length_s in ((1, before_s), (2, after_s))]
    return Sound(np.concatenate([ends[0], samples, ends[1]]), rate_hz)


@pytest.mark.parametrize("gain_db", [-40.0, -12.0, 0.0, 12.0])
@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
def test_a_steady_sound_comes_to_the_reference_level(gain_db: float, rate_hz: int) -> None:
    """-28 LUFS by BS.1770's own gated loudness, within a tenth, from any level before."""
    before = Sound(sine(997.0, 0.1, 3.0, rate_hz).samples * 10.0 ** (gain_db / 20.0), rate_hz)
    after = audio.at_reference_level(before)
    assert pyloudnorm.Meter(rate_hz).integrated_loudness(after.samples) == pytest.approx(-28.0, abs=0.1)
    ratio = after.samples[1:] / before.samples[1:]
    assert np.ptp(ratio[np.abs(before.samples[1:]) > 1e-4]) < 1e-9


def test_a_speech_source_comes_to_the_reference_level(real: Gathered) -> None:
    """The energy mean of its audible windows; by BS.1770's gating within 1 LU, whatever its pauses."""
    for spec in real.by_kind["speech"][::20]:
        sound = audio.at_reference_level(Sound(10.0 * realise(spec, RATE_HZ, real.corpora, _rule()).sound.samples, RATE_HZ))
        loudness = meters.momentary_loudness_lufs(sound)
        heard = loudness.value[loudness.valid]
        heard = heard[heard >= heard.max() - 20.0]
        assert 10.0 * np.log10(np.mean(10.0 ** (heard / 10.0))) == pytest.approx(-28.0, abs=0.1)
        assert pyloudnorm.Meter(RATE_HZ).integrated_loudness(sound.samples) == pytest.approx(-28.0, abs=1.0)


def _rule() -> Any:
    from builder.recipe import SpeechRule

    return SpeechRule(corpus="corpora/embedded.yaml")


@pytest.mark.parametrize("samples", [np.zeros(RATE_HZ), sine(997.0, 10.0 ** (-75.0 / 20.0)).samples, noise(round(0.3 * RATE_HZ))])
def test_silence_has_no_level(samples: FloatArray) -> None:
    """Silence, a tone at -75 dBFS and a sound under 400 ms are refused with the reason; no NaN comes out."""
    with pytest.raises(Refused, match=rf"^silent: no 400 ms above -70 LUFS in {len(samples) / RATE_HZ:.2f} s$"):
        audio.at_reference_level(Sound(samples, RATE_HZ))


def test_pauses_do_not_count_for_the_level() -> None:
    """The same sound with a second of near-silence around it gets the same gain."""
    alone = Sound(sine(997.0, 0.1).samples, RATE_HZ)
    surrounded = padded(alone.samples, 1.0, 1.0)
    gains = [np.max(np.abs(audio.at_reference_level(sound).samples)) for sound in (alone, surrounded)]
    assert 20.0 * np.log10(gains[1] / gains[0]) == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("fade_s", [0.005, 0.01, 0.04])
def test_faded_ends_are_quiet_and_the_middle_is_untouched(fade_s: float) -> None:
    """A rise and a fall of the same shape, monotone, of the width that was asked for; the length stays."""
    flat = audio.faded(Sound(np.ones(RATE_HZ), RATE_HZ), fade_s).samples
    width = round(fade_s * RATE_HZ)
    assert len(flat) == RATE_HZ
    assert flat[0] < 0.001
    assert np.all(np.diff(flat[:width]) > 0.0)
    np.testing.assert_array_equal(flat[:width], flat[-1 : -width - 1 : -1])
    np.testing.assert_array_equal(flat[width:-width], 1.0)


@pytest.mark.parametrize("n_samples", [0, 1, 2, 3, 100])
def test_a_sound_shorter_than_its_fades_keeps_its_length(n_samples: int) -> None:
    """The two fades meet in the middle."""
    found = audio.faded(Sound(np.ones(n_samples), RATE_HZ)).samples
    assert len(found) == n_samples
    assert np.all((found >= 0.0) & (found <= 1.0))


@pytest.mark.parametrize(("before_s", "after_s"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.7), (0.5, 0.3), (1.2, 1.2)])
@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_the_active_region_is_where_the_sound_is(before_s: float, after_s: float, rate_hz: int) -> None:
    """Padding is left out, to within an analysis window; without padding the whole clip is active."""
    sound = padded(sine(440.0, 0.2, 2.0, rate_hz).samples, before_s, after_s, rate_hz)
    start_s, end_s = audio.active_region_s(sound)
    assert start_s == pytest.approx(before_s, abs=0.0 if before_s == 0.0 else meters.SPECTRUM_WINDOW_S)
    assert end_s == pytest.approx(before_s + 2.0, abs=1e-9 if after_s == 0.0 else meters.SPECTRUM_WINDOW_S)


def test_the_active_region_of_speech_holds_its_loud_frames(real: Gathered) -> None:
    """Every frame within 20 dB of the loud ones is inside, with padding around the cut or without."""
    for spec in real.by_kind["speech"][::12]:
        clip = realise(spec, RATE_HZ, real.corpora, _rule()).sound
        for before_s in (0.0, 0.6):
            sound = padded(clip.samples, before_s, before_s) if before_s else clip
            start_s, end_s = audio.active_region_s(sound)
            level = meters.frame_level_db(sound)
            loud = level.time_s[level.value > np.percentile(level.value, 95) - 20.0]
            assert start_s <= loud.min()
            assert loud.max() <= end_s
            assert start_s >= before_s - meters.SPECTRUM_WINDOW_S
            assert end_s <= before_s + clip.duration_s + meters.SPECTRUM_WINDOW_S


@pytest.mark.parametrize("samples", [np.zeros(RATE_HZ), np.zeros(10), np.zeros(0)])
def test_the_active_region_of_nothing_is_the_clip(samples: FloatArray) -> None:
    """Where nothing can be told, nothing is left out."""
    sound = Sound(samples, RATE_HZ)
    assert audio.active_region_s(sound) == (0.0, sound.duration_s)


@given(db=st.floats(-90.0, 12.0), negative=st.booleans())
def test_peak_is_the_largest_sample_in_db(db: float, negative: bool) -> None:
    """Of either sign, re full scale."""
    peak = 10.0 ** (db / 20.0) * (-1.0 if negative else 1.0)
    assert audio.peak_dbfs(Sound(np.array([0.0, peak, -peak / 2.0]), RATE_HZ)) == pytest.approx(db, abs=1e-9)


@pytest.mark.parametrize("samples", [np.zeros(100), np.zeros(0)])
def test_peak_of_silence_is_minus_infinity(samples: FloatArray) -> None:
    """And no warning."""
    assert audio.peak_dbfs(Sound(samples, RATE_HZ)) == float("-inf")


@pytest.mark.parametrize(("from_hz", "to_hz"), [(48_000, 16_000), (16_000, 48_000), (22_050, 16_000), (44_100, 16_000)])
def test_resampling_keeps_place_level_and_length(from_hz: int, to_hz: int) -> None:
    """A burst in the middle stays in the middle, to a tenth of a millisecond, at its level."""
    time_s = np.arange(from_hz) / from_hz
    burst = np.exp(-0.5 * ((time_s - 0.5) / 0.01) ** 2) * np.cos(2.0 * np.pi * 1000.0 * (time_s - 0.5))
    found = audio.resampled(burst, from_hz, to_hz)
    assert len(found) == to_hz
    assert np.argmax(np.abs(found)) / to_hz == pytest.approx(0.5, abs=1e-4)
    assert np.max(np.abs(found)) == pytest.approx(1.0, abs=0.02)
    np.testing.assert_array_equal(audio.resampled(burst, from_hz, from_hz), burst)


# -- shards -----------------------------------------------------------------------------------------------------------


def made_row(number: int, content: bytes, **changes: Any) -> dict[str, Any]:
    """A row as `fill` makes them, with every column of the layout."""
    name = f"vg{number:08d}"
    row: dict[str, Any] = {
        "id": name,
        "audio": {"bytes": content, "path": f"{name}.flac"},
        "question": "Does the pitch of this sound increase or decrease over time?",
        "choices": ["increase", "decrease"],
        "answer": "increase",
        "answer_index": 0,
        "direction": ("up", "down")[number % 2],
        "dimension": "pitch",
        "tier": "hard",
        "curve": "step",
        "pair_id": f"pr{number // 2:08d}",
        "source_kind": "speech",
        "source_id": f"r{number:015d}",
        "speaker_id": "ñ 日本語",
        "language": None,
        "text": "¿Qué? 日本語 \U0001f600",
        "duration_s": 2.0,
        "active_start_s": 0.0,
        "active_end_s": 2.0,
        "span": -2.5,
        "unit": "semitones",
        "effect": 1.0 / 3.0,
        "effect_jnd": 2.0,
        "rank_correlation": 0.9,
        "salience": None,
        "difference_gain": 1.0,
        "difference_r_squared": 0.99,
        "witness": "agrees",
        "witness_effect": 1.25,
        "leak_jnd": {name: None if place else 0.25 for place, name in enumerate(MEASURES)},
        "contour_time_s": [0.0, 0.5, 1.0],
        "contour_value": [None, 1.5, 2.5],
        "contour_sham": [None, 2.0, 2.0],
        "label_basis": "heard",
        "plan": "{}",
        "audio_sha256": hashlib.sha256(content).hexdigest(),
        "licence": "CC0-1.0",
        "attribution": "nobody",
        "paper_category": None,
    }
    columns = layout.features(RATE_HZ)
    assert set(changes) <= set(columns), "not a column"
    return {**{name: row.get(name) for name in columns}, **changes}


def short_flac(seed: int, n_samples: int = 800) -> bytes:
    """FLAC bytes of a little noise."""
    return audio.flac_bytes(Sound(noise(n_samples, seed), RATE_HZ))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """250 rows with sounds of their own."""
    return [made_row(number, short_flac(number)) for number in range(250)]


@pytest.fixture(scope="module")
def written(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The rows as a shard, and the checksum that was returned."""
    path = tmp_path_factory.mktemp("shard") / "data" / "pitch" / "test-00000-of-00001.parquet"
    return path, shard.write(rows, path, RATE_HZ)


def test_no_rows_are_no_shard(tmp_path: Path) -> None:
    """An empty shard is an error, and neither a file nor a temporary is left."""
    for nothing in ([], iter(())):
        with pytest.raises(ValueError, match=r"^x\.parquet: a shard needs at least one row$"):
            shard.write(nothing, tmp_path / "x.parquet", RATE_HZ)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_checksum_is_of_the_file(written: tuple[Path, str]) -> None:
    """SHA-256 of the bytes on disk, and nothing else lies beside them."""
    path, checksum = written
    assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum
    assert list(path.parent.iterdir()) == [path]


def test_the_schema_is_the_layouts(written: tuple[Path, str]) -> None:
    """Column by column, with what `datasets` keeps in the schema's metadata."""
    schema = pq.read_schema(written[0])
    assert schema.equals(layout.features(RATE_HZ).arrow_schema)
    assert (schema.metadata or {})[b"huggingface"] == layout.schema(RATE_HZ).metadata[b"huggingface"]


def test_rows_keep_order_and_values(written: tuple[Path, str], rows: list[dict[str, Any]]) -> None:
    """Every value comes back, in the order given; directions are numbered up 0, down 1."""
    found = pq.read_table(written[0]).to_pylist()
    assert [row["direction"] for row in found[:4]] == [0, 1, 0, 1]
    assert [{**row, "direction": ("up", "down")[row["direction"]]} for row in found] == rows


def test_row_groups_hold_a_hundred_rows_at_most(written: tuple[Path, str]) -> None:
    """250 rows are three groups."""
    meta = pq.ParquetFile(written[0]).metadata
    assert [meta.row_group(number).num_rows for number in range(meta.num_row_groups)] == [100, 100, 50]


@pytest.mark.parametrize(("n_rows", "size"), [(12, 1_200_000), (30, 350_000), (3, 4_999_000)])
def test_row_groups_hold_five_megabytes_at_most(tmp_path: Path, n_rows: int, size: int) -> None:
    """Large clips make small groups; nothing is lost between them."""
    rng = np.random.default_rng(1)
    large = [made_row(number, rng.bytes(size)) for number in range(n_rows)]
    shard.write(large, tmp_path / "x.parquet", RATE_HZ)
    meta = pq.ParquetFile(tmp_path / "x.parquet").metadata
    assert max(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups)) <= 5_100_000
    assert [row["id"] for row in pq.read_table(tmp_path / "x.parquet", columns=["id"]).to_pylist()] == [row["id"] for row in large]
    assert meta.num_row_groups < n_rows or size > 2_500_000


def columns_of(path: Path) -> Iterator[tuple[str, Any]]:
    """Leaf name and metadata of each column chunk."""
    meta = pq.ParquetFile(path).metadata
    for group in range(meta.num_row_groups):
        for column in range(meta.num_columns):
            chunk = meta.row_group(group).column(column)
            yield chunk.path_in_schema, chunk


def test_audio_is_stored_plain_and_uncompressed(written: tuple[Path, str]) -> None:
    """FLAC isn't compressed again and has no dictionary; everything else is compressed."""
    seen = set()
    for name, chunk in columns_of(written[0]):
        seen.add(name)
        if name.startswith("audio."):
            assert chunk.compression == "UNCOMPRESSED"
            assert "PLAIN" in chunk.encodings
            assert not [encoding for encoding in chunk.encodings if "DICTIONARY" in encoding]
        else:
            assert chunk.compression == "SNAPPY"
    assert {"audio.bytes", "audio.path"} <= seen


def test_every_column_has_a_page_index(written: tuple[Path, str]) -> None:
    """So that the viewer reads pages, not groups."""
    chunks = list(columns_of(written[0]))
    assert [name for name, chunk in chunks if not chunk.has_offset_index] == []
    assert [name for name, chunk in chunks if not chunk.has_column_index and not name.endswith("element")] == []


@pytest.mark.parametrize("how", ["from_parquet", "load_dataset"])
def test_a_shard_loads_through_datasets(written: tuple[Path, str], rows: list[dict[str, Any]], how: str, tmp_path: Path) -> None:
    """As a stranger reads it, without a decoder: the same bytes, the same features, and soundfile plays them."""
    path = str(written[0])
    if how == "from_parquet":
        loaded = datasets.Dataset.from_parquet(path, cache_dir=str(tmp_path))
    else:
        loaded = datasets.load_dataset("parquet", data_files={"test": path}, split="test", cache_dir=str(tmp_path))
    assert loaded.features == layout.features(RATE_HZ)
    plain = loaded.cast_column("audio", datasets.Audio(decode=False))
    assert [item["bytes"] for item in plain["audio"]] == [row["audio"]["bytes"] for row in rows]
    assert [item["path"] for item in plain["audio"]] == [row["audio"]["path"] for row in rows]
    assert plain.features["direction"].int2str(plain["direction"]) == [row["direction"] for row in rows]
    np.testing.assert_array_equal(audio.from_flac(plain[7]["audio"]["bytes"]).samples, audio.from_flac(rows[7]["audio"]["bytes"]).samples)


def test_the_same_rows_are_the_same_bytes(written: tuple[Path, str], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """Elsewhere, over an older file, from a generator: the same checksum; one value changed: another."""
    path, checksum = written
    target = tmp_path / "elsewhere" / "other name.parquet"
    assert shard.write(iter(rows), target, RATE_HZ) == checksum
    assert shard.write(rows, target, RATE_HZ) == checksum
    assert target.read_bytes() == path.read_bytes()
    changed = [*rows[:-1], {**rows[-1], "effect": 0.5}]
    assert shard.write(changed, target, RATE_HZ) != checksum
    assert shard.write(rows[::-1], target, RATE_HZ) != checksum


def test_writing_leaves_the_rows_alone(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """`direction` is a name before and after."""
    shard.write(rows[:2], tmp_path / "x.parquet", RATE_HZ)
    assert [row["direction"] for row in rows[:2]] == ["up", "down"]


def test_a_control_has_no_direction(tmp_path: Path) -> None:
    """Null in, null out."""
    shard.write([made_row(1, short_flac(1), direction=None)], tmp_path / "x.parquet", RATE_HZ)
    assert pq.read_table(tmp_path / "x.parquet")["direction"].to_pylist() == [None]


def failing(rows: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Rows, then an error."""
    yield from rows
    raise RuntimeError("the source of rows broke")


def broken(rows: list[dict[str, Any]], how: str) -> tuple[Any, type[Exception]]:
    """Rows that can't be written, and the error that they give."""
    if how == "rows end in an error":
        return failing(rows), RuntimeError
    if how == "a value of the wrong type":
        return [*rows, {**rows[0], "duration_s": "two seconds"}], Exception
    return [*rows, {**rows[0], "direction": "sideways"}], ValueError


@pytest.mark.parametrize("how", ["rows end in an error", "a value of the wrong type", "no such direction"])
@pytest.mark.parametrize("older", [True, False])
def test_a_shard_is_whole_or_not_there(rows: list[dict[str, Any]], tmp_path: Path, how: str, older: bool) -> None:
    """An error in the middle leaves neither a file nor a temporary; an older file stays as it was."""
    path = tmp_path / "x.parquet"
    before = shard.write(rows[:5], path, RATE_HZ) if older else None
    bad, error = broken(rows, how)
    with pytest.raises(error):
        shard.write(bad, path, RATE_HZ)
    assert [item.name for item in tmp_path.iterdir()] == (["x.parquet"] if older else [])
    assert before is None or hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_a_write_that_is_cut_off_leaves_no_trace(rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up while groups are written, or an interrupt: nothing under the final name, no temporary."""
    for error, told in ((OSError(28, "No space left on device"), DiskFull), (KeyboardInterrupt(), KeyboardInterrupt)):
        calls = []

        def fail_late(self: Any, table: Any, *args: Any, error: BaseException = error, calls: list[int] = calls, **more: Any) -> None:
            calls.append(len(table))
            if len(calls) == 2:
                raise error

        with monkeypatch.context() as patched:
            patched.setattr(pq.ParquetWriter, "write_table", fail_late)
            with pytest.raises(told):
                shard.write(rows, tmp_path / "x.parquet", RATE_HZ)
        assert len(calls) == 2
        assert list(tmp_path.iterdir()) == []


def test_json_and_text_are_whole_or_not_there(tmp_path: Path) -> None:
    """What can't be written as JSON leaves the older file; folders are made; text is UTF-8."""
    path = tmp_path / "deep" / "report.json"
    layout.write_json({"ñ": ["日本語", 0.1]}, path)
    before = path.read_bytes()
    assert "日本語".encode() in before
    with pytest.raises(TypeError):
        layout.write_json({"x": object()}, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_every_maker_fits_16_bit_at_the_reference_level() -> None:
    """At -28 LUFS nothing that's synthesised comes near full scale: there's room for every sweep."""
    from builder.synthesis import drawn

    for kind in voice.MAKERS:
        for number in range(5):
            made = voice.MAKERS[kind](drawn(kind, "test", number, 1).parameters, RATE_HZ, {})
            assert audio.peak_dbfs(audio.at_reference_level(made)) < -9.0
