"""Fingerprints: a clip is found again through noise, gain and a shift, and unlike clips aren't."""

from __future__ import annotations

import numpy as np
import pytest

from builder import fingerprints
from builder.acoustics import audio
from builder.records import FloatArray, Sound

RATE_HZ = 16000
TIME_S = np.arange(3 * RATE_HZ) / RATE_HZ


def sounds() -> dict[str, FloatArray]:
    """A gliding harmonic tone, white noise, pulses."""
    rng = np.random.default_rng(4)
    phase = 2.0 * np.pi * (140.0 * TIME_S + 10.0 * TIME_S**2)
    pulses = np.zeros(len(TIME_S))
    pulses[:: RATE_HZ // 5] = 1.0
    return {
        "tone": 0.1 * sum(np.sin(k * phase) / k for k in range(1, 12)),
        "noise": 0.05 * rng.normal(size=len(TIME_S)),
        "pulses": 0.5 * np.convolve(pulses, np.exp(-np.arange(400) / 80.0) * np.sin(np.arange(400)), "same"),
    }  # fmt: skip


def altered(samples: FloatArray, how: str) -> FloatArray:
    """The same with noise 20 dB below it, 6 dB less, or 10 ms later."""
    noise = np.random.default_rng(5).normal(size=len(samples)) * np.sqrt(np.mean(samples**2))
    late = np.concatenate([np.zeros(160), samples[:-160]])
    return {"noise": samples + 0.1 * noise, "gain": 0.5 * samples, "shift": late}[how]


def found(sounds: list[FloatArray], splits: list[str]) -> list[tuple[int, int]]:
    """Candidates that also correlate."""
    made = [audio.rounded_to_pcm16(Sound(samples, RATE_HZ)) for samples in sounds]
    bits = np.array([fingerprints.of(sound) for sound in made])
    pairs = fingerprints.candidates(bits, np.array([sound.duration_s for sound in made]), splits)
    return [(i, j) for i, j in pairs if fingerprints.correlation(made[i], made[j]) >= fingerprints.MIN_CORRELATION]


@pytest.mark.parametrize("name", ["tone", "noise", "pulses"])
@pytest.mark.parametrize("how", ["noise", "gain", "shift"])
def test_a_clip_is_found_again(name: str, how: str) -> None:
    """Among others, and in another split only."""
    others = [samples for other, samples in sounds().items() if other != name]
    clip = sounds()[name]
    assert found([clip, *others, altered(clip, how)], ["train", "train", "test", "test"]) == [(0, 3)]
    assert found([clip, *others, altered(clip, how)], ["train", "test", "test", "train"]) == []


def test_tones_of_nearly_one_pitch_are_candidates_and_no_duplicates() -> None:
    """Their spectrograms are alike; their waveforms, half a hertz apart, aren't."""
    tones = [0.1 * np.sin(2.0 * np.pi * f * TIME_S) + 0.05 * np.sin(4.0 * np.pi * f * TIME_S) for f in (200.0, 200.5)]
    bits = np.array([fingerprints.of(Sound(tone, RATE_HZ)) for tone in tones])
    assert list(fingerprints.candidates(bits, np.array([3.0, 3.0]), ["train", "test"])) == [(0, 1)]
    assert found(tones, ["train", "test"]) == []


def test_candidates_are_of_one_length() -> None:
    """Equal bits 40 ms apart in duration are candidates, 60 ms apart they aren't; each pair comes once, through blocks too."""
    bits = np.zeros((600, 8), dtype=np.uint64)
    duration_s = np.arange(600) * 0.04
    splits = ["train", "test"] * 300
    assert sorted(fingerprints.candidates(bits, duration_s, splits)) == [(i, i + 1) for i in range(599)]
    assert list(fingerprints.candidates(bits[:2], np.array([0.0, 0.06]), splits[:2])) == []


def test_silence_and_short_sounds_have_a_fingerprint() -> None:
    """All bits 0, and no correlation."""
    for samples in (np.zeros(RATE_HZ), np.zeros(10), np.ones(100)):
        assert not fingerprints.of(Sound(samples, RATE_HZ)).any()
    assert fingerprints.correlation(Sound(np.zeros(100), RATE_HZ), Sound(np.ones(100), RATE_HZ)) == 0.0
