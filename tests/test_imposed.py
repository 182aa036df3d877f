"""Imposed labels: what sweeps on raw recordings say, whose own trend stays in."""

from __future__ import annotations

import numpy as np
import pytest

from builder import imposed, label, measure, render
from builder.acoustics import audio, curves, filters, voice
from builder.dimensions import BY_NAME
from builder.layout import read_manifest
from builder.pipeline import Built
from builder.records import Margins, PairPlan, Reason, Sound, Source, SourceSpec

RATE_HZ = 16_000
FALL_SEMITONES, FALL_DB, FALL_DB_PER_OCTAVE = 6.0, 16.0, 5.0


def falling_recording(kind: str = "tone") -> Source:
    """A sound that falls by itself in pitch, level and brightness from end to end, as a recording: no synthesis knob."""
    parameters = {"f0_hz": 180.0, "n_harmonics": 24, "rolloff_db_per_octave": 4.0, "duration_s": 3.0, "seed": 3}
    made = voice.tone(parameters, RATE_HZ, {"pitch": lambda time_s: -FALL_SEMITONES * (time_s / 3.0 - 0.5)})
    if kind == "noise":
        made = Sound(0.05 * np.random.default_rng(2).standard_normal(3 * RATE_HZ), RATE_HZ)
    duller = filters.tilted(made, lambda time_s: -FALL_DB_PER_OCTAVE * (time_s / 3.0 - 0.5))
    softer = filters.scaled_by_db(duller, -FALL_DB * (np.arange(len(duller.samples)) / len(duller.samples) - 0.5))
    sound = audio.faded(audio.at_reference_level(Sound(softer.samples, RATE_HZ)))
    spec = SourceSpec("speech", "falling", {}, "nobody", None, None, "CC0-1.0", "made in a test")
    return Source(spec, sound, *audio.active_region_s(sound), 1)


def pair_on(name: str, source: Source, jnds: float) -> PairPlan:
    """A pair that asks for so many J on a source."""
    jnd = BY_NAME[name].jnd.on("speech")
    span = jnds * jnd / curves.end_to_start("linear")
    return PairPlan(name, "hard", "linear", "test", span, jnds * jnd, jnd, source.spec, 1.0, RATE_HZ)


@pytest.mark.parametrize(("name", "kind"), [("pitch", "tone"), ("loudness", "tone"), ("brightness", "noise")])
def test_a_small_sweep_loses_to_the_recordings_own_trend(name: str, kind: str) -> None:
    """Imposed on a recording that falls, a rise of 2 J is heard to fall; the pair that was flattened first says what was planned."""
    source = falling_recording(kind)
    pair = pair_on(name, source, 2.0)
    found = imposed.outcome(pair, source, Margins())
    assert {key: found[key] for key in ("dimension", "tier", "curve", "source_id")} == {
        "dimension": name, "tier": "hard", "curve": "linear", "source_id": "falling",
    }  # fmt: skip
    rise, fall = found["clips"]
    assert (rise["slope"], fall["slope"]) == (-1, 1)
    assert (rise["rule"], fall["rule"]) == (-1, 1)
    flattened = [measure.measure(render.clip(pair, source, sign), BY_NAME[name]) for sign in (1, -1)]
    assert [np.sign(label.hear(contour, source.start_s, source.end_s).trend) for contour in flattened] == [1.0, -1.0]


def test_a_large_sweep_wins() -> None:
    """A rise of 12 LU imposed on a fall of 16 dB still falls; one of 24 rises."""
    source = falling_recording()
    small, large = (imposed.outcome(pair_on("loudness", source, jnds), source, Margins())["clips"][0] for jnds in (4.0, 8.0))
    assert small["slope"] == -1
    assert large["slope"] == 1


def test_what_can_not_be_made_is_told() -> None:
    """A sweep that the recording refuses is counted with its reason, not as wrong."""
    samples = 0.05 * np.random.default_rng(2).standard_normal(3 * RATE_HZ)
    spec = SourceSpec("speech", "hiss", {}, "nobody", None, None, "CC0-1.0", "made in a test")
    source = Source(spec, Sound(samples, RATE_HZ), 0.0, 3.0, 1)
    clips = imposed.outcome(pair_on("pitch", source, 2.0), source, Margins())["clips"]
    assert clips == [{"refused": Reason.UNVOICED.value}] * 2


def test_the_build_asks_its_first_candidates_of_running_speech(smoke: Built) -> None:
    """Every dimension on running speech has outcomes, as many as candidates were tried, at most eight a cell; no other kind has."""
    manifest = read_manifest(smoke.out)
    speech = [cell for cell in manifest["cells"] if cell["kind"] == "speech" and cell["curve"] != "flat"]
    for name in {cell["dimension"] for cell in manifest["cells"]}:
        mine = [outcome for outcome in manifest["imposed"] if outcome["dimension"] == name]
        assert len(mine) == sum(min(cell["tried"], imposed.PER_CELL) for cell in speech if cell["dimension"] == name)
    said = [clip for outcome in manifest["imposed"] for clip in outcome["clips"] if "refused" not in clip]
    assert {clip["rule"] for clip in said} <= {-1, 0, 1}
    assert sum(clip["slope"] == 1 for clip in said) > 0.7 * len(said)
