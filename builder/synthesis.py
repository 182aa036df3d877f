"""Parameters of synthetic sources, drawn from counter-based generators.

Source number n of a split and kind is the same whatever else is built, and no two splits can draw the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from builder.acoustics import voice
from builder.keys import digest, seed_of
from builder.records import SourceSpec

SYNTHESIS_LICENCE = "CC0-1.0"
SYNTHESIS_ATTRIBUTION = "Synthesised by vocalgrad, CC0 1.0"


def _pick(rng: np.random.Generator, low: float, high: float, digits: int = 4) -> float:
    return round(float(rng.uniform(low, high)), digits)


def _draw_voice(rng: np.random.Generator) -> dict[str, Any]:
    group = ("man", "woman", "child")[int(rng.integers(3))]
    vowels = sorted(voice.VOWEL_FORMANTS_HZ[group])
    low, high = voice.F0_RANGE_HZ[group]
    return {
        "group": group,
        "vowel": vowels[int(rng.integers(len(vowels)))],
        "f0_hz": round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 3),
        "tract_scale": _pick(rng, 0.95, 1.05),
        "open_quotient": _pick(rng, 0.5, 0.7),
        "source_tilt_db_per_octave": _pick(rng, -5.0, -2.0, 2),
        "jitter": _pick(rng, 0.003, 0.008),
        "shimmer": _pick(rng, 0.01, 0.04),
        "aspiration_db": _pick(rng, -36.0, -26.0, 2),
        "drift_semitones": _pick(rng, 0.02, 0.05),
        "duration_s": _pick(rng, 2.5, 4.0, 2),
        "syllable_rate_hz": None,
    }


def _draw_voice_syllables(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _draw_voice(rng)
    rate = _steady_rate(rng, 3.2, 5.0)
    duration_s = voice.row_duration_s(rate["rate_hz"], rate["repeats"], voice.SYLLABLE_DUTY)
    return {**drawn, "syllable_rate_hz": rate["rate_hz"], "duration_s": duration_s}


def _steady_rate(rng: np.random.Generator, low: float, high: float) -> dict[str, Any]:
    """A rate, and the number of events at it that lasts 3.2 to 4.2 s."""
    rate_hz = _pick(rng, low, high, 3)
    return {"rate_hz": rate_hz, "repeats": int(np.ceil(_pick(rng, 3.2, 4.2) * rate_hz))}


def _draw_tone(rng: np.random.Generator) -> dict[str, Any]:
    pure = bool(rng.random() < 0.34)
    return {
        "f0_hz": round(float(np.exp(rng.uniform(np.log(130.0), np.log(420.0)))), 3),
        "n_harmonics": 1 if pure else int(rng.integers(4, 13)),
        "rolloff_db_per_octave": 0.0 if pure else _pick(rng, 3.0, 9.0, 2),
        "duration_s": _pick(rng, 2.5, 4.0, 2),
    }


def _draw_noise(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "slope_db_per_octave": _pick(rng, -6.0, 0.0, 2),
        "low_hz": 80.0,
        "high_hz": _pick(rng, 6500.0, 7500.0, 0),
        "duration_s": _pick(rng, 2.5, 4.0, 2),
    }


def _draw_pulses(rng: np.random.Generator) -> dict[str, Any]:
    carrier = None if rng.random() < 0.4 else round(float(np.exp(rng.uniform(np.log(300.0), np.log(2000.0)))), 2)
    drawn = _steady_rate(rng, 3.2, 6.0)
    duty = _pick(rng, 0.4, 0.65, 3)
    return {
        "rate_hz": drawn["rate_hz"],
        "duty": duty,
        "carrier_hz": carrier,
        "duration_s": voice.row_duration_s(drawn["rate_hz"], drawn["repeats"], duty),
    }


DRAWS: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "voice": _draw_voice,
    "voice_syllables": _draw_voice_syllables,
    "tone": _draw_tone,
    "noise": _draw_noise,
    "pulses": _draw_pulses,
}


def drawn(kind: str, split: str, number: int, seed: int) -> SourceSpec:
    """Synthetic source `number` of a kind and split: the same whatever else is drawn.

    Parameters
    ----------
    kind
        A synthetic kind.
    split
        Split that the source belongs to; no other split can draw the same.
    number
        Counter from 0.
    seed
        The recipe's.
    """
    key = seed_of("synthesis", seed, kind, split, number)
    parameters = DRAWS[kind](np.random.default_rng(key))
    parameters["seed"] = key % 2**32
    source_id = "s" + digest([kind, parameters])[1:]
    speaker = "synth-" + source_id[1:9] if kind in ("voice", "voice_syllables") else None
    return SourceSpec(kind, source_id, parameters, speaker, None, None, SYNTHESIS_LICENCE, SYNTHESIS_ATTRIBUTION)


def vowel_parameters(source_id: str) -> dict[str, Any]:
    """How a real vowel is held: 2.5 to 4 s, with the movement that a held voice has."""
    key = seed_of("vowels", source_id)
    rng = np.random.default_rng(key)
    return {
        "duration_s": _pick(rng, 2.5, 4.0, 2),
        "jitter": _pick(rng, 0.002, 0.006),
        "drift_semitones": _pick(rng, 0.02, 0.05),
        "seed": key % 2**32,
    }


def syllable_parameters(source_id: str, length_s: float) -> dict[str, Any]:
    """Rate and number of repetitions for a real syllable of a length: 2.4 to 5 per second, never overlapping."""
    rng = np.random.default_rng(seed_of("syllables", source_id))
    fastest = min(5.0, 0.92 / length_s)
    return _steady_rate(rng, min(2.4, fastest - 0.05), fastest)
