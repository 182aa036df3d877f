"""File formats that a corpus may have: each at its own rate and level, whatever its name says; damage is told."""

from __future__ import annotations

import io
import re
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from G722 import G722

from builder.acoustics import audio, containers, mpeg
from builder.errors import Refused
from builder.records import FloatArray

OPUS_HZ = (8000, 12_000, 16_000, 24_000, 48_000)
COMMON_HZ = (8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
FORMATS = [
    *(("MP3", None, rate_hz) for rate_hz in COMMON_HZ),
    *(("OGG", "VORBIS", rate_hz) for rate_hz in COMMON_HZ),
    *(("OGG", "OPUS", rate_hz) for rate_hz in OPUS_HZ),
    *(("FLAC", subtype, rate_hz) for subtype in ("PCM_16", "PCM_24") for rate_hz in COMMON_HZ),
    *(("WAV", subtype, 8000) for subtype in ("PCM_U8", "ULAW", "ALAW", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")),
]


def tone(rate_hz: int, duration_s: float = 2.0) -> FloatArray:
    """440 Hz at a peak of 0.2."""
    return 0.2 * np.sin(2.0 * np.pi * 440.0 * np.arange(round(duration_s * rate_hz)) / rate_hz)


def frequency_hz(samples: FloatArray, rate_hz: int) -> float:
    """Frequency of the strongest partial, from zero-padded spectra; within 0.03 Hz for two seconds."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 16 * len(samples)))
    return float(np.argmax(spectrum) * rate_hz / (16 * len(samples)))


@pytest.mark.parametrize(("kind", "subtype", "rate_hz"), FORMATS)
def test_a_tone_keeps_frequency_level_and_length(tmp_path: Path, kind: str, subtype: str | None, rate_hz: int) -> None:
    """440 Hz at 0.2 in every format is 440 Hz at 0.2 at the rate that the file says, and two seconds long."""
    soundfile.write(tmp_path / "a", tone(rate_hz), rate_hz, format=kind, subtype=subtype)
    samples, found_hz = audio.read(tmp_path / "a")
    assert found_hz == rate_hz
    assert len(samples) / found_hz == pytest.approx(2.0, abs=0.01)
    inner = samples[rate_hz // 4 : -rate_hz // 4, 0]
    assert frequency_hz(inner, found_hz) == pytest.approx(440.0, abs=0.1)
    assert np.sqrt(2.0 * np.mean(inner**2)) == pytest.approx(0.2, rel=0.03)
    at_work = audio.resampled(samples[:, 0], found_hz, 16_000)
    assert frequency_hz(at_work[4000:-4000], 16_000) == pytest.approx(440.0, abs=0.1)
    assert len(at_work) == pytest.approx(len(samples) * 16_000 / found_hz, abs=1.0)


def test_sixteen_bits_come_back_as_they_were(tmp_path: Path) -> None:
    """Every one of the 65,536 steps: 16 bit to float to 16 bit is the identity."""
    steps = np.arange(-32768, 32768, dtype=np.int16)
    for name in ("a.wav", "a.flac", "a.aiff"):
        soundfile.write(tmp_path / name, steps, 16_000, subtype="PCM_16")
        samples, _ = audio.read(tmp_path / name)
        np.testing.assert_array_equal(np.rint(samples[:, 0] * audio.PCM16_SCALE).astype(np.int16), steps)


@pytest.mark.parametrize(("content", "name"), [("MP3", "a.wav"), ("OGG", "a.mp3"), ("WAV", "a.flac"), ("FLAC", "a")])
def test_the_content_counts_and_not_the_name(tmp_path: Path, content: str, name: str) -> None:
    """A file under another format's suffix is read as what it is."""
    soundfile.write(tmp_path / "right", tone(16_000), 16_000, format=content)
    (tmp_path / name).write_bytes((tmp_path / "right").read_bytes())
    np.testing.assert_array_equal(audio.read(tmp_path / name)[0], audio.read(tmp_path / "right")[0])


def encoded(samples: FloatArray, kind: str, subtype: str | None = None, rate_hz: int = 16_000, **how: object) -> bytes:
    """Sound as the bytes of a file."""
    stream = io.BytesIO()
    with soundfile.SoundFile(stream, "w", rate_hz, 1, subtype, None, kind, **how) as opened:
        opened.write(samples)
    return stream.getvalue()


def as_read(content: bytes) -> FloatArray | str:
    """Samples of a file in memory, or why it's refused."""
    try:
        return audio.read(Path("a"), content=content)[0]
    except Refused as refusal:
        return str(refusal)


NOT_READ = {("AIFF", "DWVW_16"), ("AIFF", "DWVW_24"), ("VOC", "ULAW"), ("VOC", "ALAW"), ("WAV", "GSM610")}
"""What libsndfile writes and can't read back, with noise at its end, or with a length that contradicts itself."""


def written() -> list[tuple[str, str]]:
    """Every container that is read, with every encoding that can be written into it."""
    found = []
    for kind in containers.CHECKS:
        for subtype in soundfile.available_subtypes(kind):
            with suppress(soundfile.LibsndfileError):
                encoded(np.zeros(100), kind, subtype)
                found.append((kind, subtype))
    return [item for item in found if item not in NOT_READ]


@pytest.mark.parametrize(("kind", "subtype"), written())
def test_what_is_cut_short_is_never_taken_as_whole(kind: str, subtype: str) -> None:
    """A file cut anywhere is refused as cut short, or gives every sample: in each container and encoding."""
    content = encoded(tone(16_000, 0.25) + np.random.default_rng(1).normal(0.0, 0.01, 4000), kind, subtype)
    whole = as_read(content)
    assert len(whole) >= 4000
    near_the_ends = [*range(400, 4096, 211), *range(len(content) - 20, len(content))]
    for length in sorted({*near_the_ends, *(len(content) * share // 10 for share in range(1, 10))} & set(range(len(content)))):
        found = as_read(content[:length])
        same = not isinstance(found, str) and np.array_equal(found, whole)
        assert same or str(found).startswith("unreadable: cut short"), f"{length} of {len(content)} bytes"


@pytest.mark.parametrize(("kind", "subtype"), sorted(NOT_READ))
def test_what_the_decoder_gets_wrong_is_refused(kind: str, subtype: str) -> None:
    """Of a whole file too: a counted refusal, no traceback and no noise."""
    assert str(as_read(encoded(tone(16_000), kind, subtype))).startswith("unreadable: ")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "subtype"), written())
def test_no_byte_can_be_cut_off_unseen(kind: str, subtype: str) -> None:
    """The same at every byte of a file; of the header, what is left may be no file of any kind."""
    content = encoded(tone(16_000, 0.05), kind, subtype)
    whole = as_read(content)
    for length in range(len(content)):
        found = as_read(content[:length])
        assert str(found).startswith("unreadable: ") if isinstance(found, str) else np.array_equal(found, whole), f"{length} bytes"


@pytest.mark.parametrize("kind", sorted(set(soundfile.available_formats()) - set(containers.CHECKS) - {"RAW", "SD2"}))
def test_a_kind_that_cannot_be_checked_is_refused(kind: str) -> None:
    """What libsndfile reads, and nobody can tell to be whole, is refused with what to do."""
    assert "convert it to WAV or FLAC" in str(as_read(encoded(tone(8000, 0.5), kind, rate_hz=8000)))


@pytest.mark.parametrize(("kind", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("MP3", "MPEG_LAYER_III"), ("OGG", "OPUS")])
def test_bytes_are_read_as_their_file_is(tmp_path: Path, kind: str, subtype: str) -> None:
    """Sound from an object store is the sound of the same file in a folder."""
    content = encoded(tone(16_000), kind, subtype)
    (tmp_path / "a").write_bytes(content)
    np.testing.assert_array_equal(as_read(content), audio.read(tmp_path / "a")[0])


# -- Ogg and MP3 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_every_page_of_ogg_counts(subtype: str) -> None:
    """A second stream behind the first, a page left out and a bit that flipped are all told; other bytes behind it aren't its own."""
    content = encoded(np.random.default_rng(1).normal(0.0, 0.1, 64_000), "OGG", subtype)
    pages = [match.start() for match in re.finditer(b"OggS", content)]
    assert "several streams" in str(as_read(content * 2))
    assert "page 2 is missing" in str(as_read(content[: pages[2]] + content[pages[3] :]))
    for at in (pages[2] + 40, len(content) - 1):
        assert "checksum" in str(as_read(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]))
    np.testing.assert_array_equal(as_read(content + b"TAG" + bytes(125)), as_read(content))


def loud_at(end: str) -> FloatArray:
    """Four seconds of noise, loud in one half: where its bit rate varies, it varies much."""
    noise = np.random.default_rng(1).normal(0.0, 0.1, 64_000)
    noise[:32_000] *= 0.003 if end == "end" else 1.0
    noise[32_000:] *= 0.003 if end == "beginning" else 1.0
    return noise


def without_header(content: bytes) -> bytes:
    """An MP3 file without the frame that counts the others."""
    return content[content.index(content[:2], 4) :]


@pytest.mark.parametrize("end", ["beginning", "end"])
@pytest.mark.parametrize("mode", ["CONSTANT", "AVERAGE", "VARIABLE"])
def test_mp3_without_a_header_is_read_whole(mode: str, end: str) -> None:
    """No guess at its length: all frames count, without what decoders put before them; tags and padding aren't sound."""
    content = encoded(loud_at(end), "MP3", bitrate_mode=mode)
    whole, bare = as_read(content), without_header(content)
    assert len(whole) == 64_000
    found = as_read(bare)
    assert 64_000 <= len(found) <= 64_000 + mpeg.PADDING
    for more in (b"TAG" + bytes(125), bytes(3000), b"\xff" * 3000):
        np.testing.assert_array_equal(as_read(bare + more), found)
    np.testing.assert_array_equal(as_read(b"ID3\x04" + bytes(4) + b"\x02\x00" + bytes(256) + bare), found)
    assert "its last frame lacks 1 byte" in str(as_read(bare[:-1]))


def test_mp3_without_a_header_whose_rate_holds_still_is_read_as_ever(tmp_path: Path) -> None:
    """Where the decoder's own guess loses nothing, its samples are taken to the last bit."""
    (tmp_path / "a.mp3").write_bytes(without_header(encoded(loud_at("end"), "MP3", bitrate_mode="CONSTANT", compression_level=0.5)))
    np.testing.assert_array_equal(audio.read(tmp_path / "a.mp3")[0], soundfile.read(tmp_path / "a.mp3", always_2d=True)[0])


def test_mp3_files_one_after_the_other_are_told() -> None:
    """Only the first would be heard: refused, never read in part."""
    assert "several streams" in str(as_read(encoded(tone(16_000), "MP3") * 3))


def test_mp3_at_a_frame_of_other_kinds_is_told() -> None:
    """MPEG audio of other layers isn't counted, and not guessed at."""
    layer_ii = (b"\xff\xfd\x84\x00" + bytes(414)) * 50
    assert str(as_read(layer_ii)).startswith("unreadable")


@pytest.mark.parametrize("content", [b"", b"no sound at all" * 99, b"RIFF\x00\x00\x00\x00WAVE", b"ID3\x04" + b"\x00" * 500])
def test_a_refusal_tells_no_place(tmp_path: Path, content: bytes) -> None:
    """The reason goes into the manifest, which is the same wherever the corpus lies."""
    (tmp_path / "a.mp3").write_bytes(content)
    with pytest.raises(Refused) as caught:
        audio.read(tmp_path / "a.mp3")
    assert str(tmp_path) not in str(caught.value)
    assert len(caught.value.detail) > 5


def test_g722_is_read_at_16_khz(tmp_path: Path) -> None:
    """A telephone prompt without a header: 64 kbit/s are 16 kHz, at the level that was coded."""
    steps = np.rint(tone(16_000) * 32768.0).astype(np.int16)
    (tmp_path / "a.g722").write_bytes(bytes(G722(16_000, 64_000).encode(steps)))
    samples, rate_hz = audio.read(tmp_path / "a.g722")
    assert (rate_hz, samples.shape) == (16_000, (len(steps), 1))
    assert frequency_hz(samples[4000:-4000, 0], 16_000) == pytest.approx(440.0, abs=0.1)
    assert np.sqrt(2.0 * np.mean(samples[4000:-4000] ** 2)) == pytest.approx(0.2, rel=0.03)


def test_g722_without_its_decoder_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder is an extra: without it the file is refused, with the command that brings it."""
    (tmp_path / "a.g722").write_bytes(b"\x00" * 8000)
    monkeypatch.setitem(sys.modules, "G722", None)
    with pytest.raises(Refused, match=r"pip install 'vocalgrad\[g722\]'"):
        audio.read(tmp_path / "a.g722")


def test_an_empty_g722_file_has_no_samples(tmp_path: Path) -> None:
    """No bytes are no sound, and no crash."""
    (tmp_path / "a.g722").write_bytes(b"")
    assert audio.read(tmp_path / "a.g722")[0].shape == (0, 1)
