"""File formats that a corpus may have: each at its own rate and level, whatever its name says; damage is told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from G722 import G722

from builder.acoustics import audio
from builder.errors import Refused
from builder.records import FloatArray, Reason

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


@pytest.mark.parametrize("kind", ["MP3", "FLAC", "WAV"])
def test_half_a_file_is_unreadable(tmp_path: Path, kind: str) -> None:
    """A recording cut short is refused, never taken as a shorter one."""
    soundfile.write(tmp_path / "whole", tone(16_000, 4.0), 16_000, format=kind)
    content = (tmp_path / "whole").read_bytes()
    (tmp_path / "half").write_bytes(content[: len(content) // 2])
    with pytest.raises(Refused) as caught:
        audio.read(tmp_path / "half")
    assert caught.value.reason is Reason.UNREADABLE


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
