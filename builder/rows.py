"""Published rows: what a judged clip becomes, and the plan in a row that makes it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from builder import label
from builder.acoustics import audio
from builder.dimensions import BY_NAME, MEASURES, Dimension
from builder.keys import digest
from builder.records import Contour, Direction, FloatArray, PairPlan, Sound, SourceSpec

CLIP = "vg"
"""How a clip's identifier begins."""


@dataclass(frozen=True)
class Clip:
    """One judged clip: what is published if its pair is accepted."""

    sound: Sound
    sign: int
    heard: label.Heard
    contour: Contour
    sham_value: FloatArray
    gain: float | None
    r_squared: float | None
    witness: str | None
    witness_contrast: float
    leaks: Mapping[str, float | None]
    basis: str
    start_s: float
    end_s: float


def as_json(pair: PairPlan) -> dict[str, Any]:
    """A pair's plan as plain values: all that is needed to make its clips again."""
    values = asdict(pair)
    values["source"].pop("carrier")
    values["source"]["parameters"] = dict(pair.source.parameters)
    return values


def row_of(pair: PairPlan, clip: Clip, *, increase_first: bool) -> dict[str, Any]:
    """The published row of a clip; a control has no answer and no direction.

    Parameters
    ----------
    increase_first
        Order of the two choices, the same for both clips of a pair: so each order and each answer index is balanced.
    """
    dimension = BY_NAME[pair.dimension]
    content = audio.flac_bytes(clip.sound)
    checksum = hashlib.sha256(content).hexdigest()
    asked = as_json(pair)
    planned = {"pair": asked, "sign": clip.sign}
    rise, fall = dimension.answers
    choices = [rise, fall] if increase_first else [fall, rise]
    answer = {1: rise, -1: fall, 0: None}[clip.sign]
    row_id = CLIP + digest(["clip", planned], 20)
    return {
        "id": row_id,
        "audio": {"bytes": content, "path": f"{row_id}.flac"},
        "question": question(dimension, choices),
        "choices": choices,
        "answer": answer,
        "answer_index": None if answer is None else choices.index(answer),
        "direction": {1: Direction.UP.value, -1: Direction.DOWN.value, 0: None}[clip.sign],
        "dimension": pair.dimension,
        "tier": pair.tier,
        "curve": pair.curve,
        "pair_id": "pr" + digest(["pair", asked], 20),
        "source_kind": pair.source.kind,
        "source_id": pair.source.source_id,
        "speaker_id": pair.source.speaker_id,
        "language": pair.source.language,
        "text": pair.source.text,
        "duration_s": round(clip.sound.duration_s, 6),
        "active_start_s": round(clip.start_s, 4),
        "active_end_s": round(clip.end_s, 4),
        "span": clip.sign * pair.span,
        "unit": dimension.unit,
        "effect": clip.heard.contrast,
        "effect_jnd": round(clip.heard.contrast / pair.jnd, label.DIGITS),
        "rank_correlation": clip.heard.rank_correlation,
        "salience": clip.heard.salience if np.isfinite(clip.heard.salience) else None,
        "difference_gain": clip.gain,
        "difference_r_squared": clip.r_squared,
        "witness": clip.witness,
        "witness_effect": clip.witness_contrast if np.isfinite(clip.witness_contrast) else None,
        "leak_jnd": {name: clip.leaks.get(name) for name in MEASURES},
        "contour_time_s": _values(clip.contour.time_s),
        "contour_value": _values(clip.contour.value),
        "contour_sham": _values(clip.sham_value),
        "label_basis": clip.basis,
        "plan": json.dumps(planned, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")),
        "audio_sha256": checksum,
        "licence": pair.source.licence,
        "attribution": pair.source.attribution,
        "paper_category": dimension.paper_category,
    }


def _values(value: FloatArray) -> list[float | None]:
    return [item if np.isfinite(item) else None for item in np.round(value, label.DIGITS).tolist()]


def question(dimension: Dimension, choices: list[str]) -> str:
    """The question, with the choices in their order."""
    return dimension.question.format(noun=dimension.noun, first=choices[0], second=choices[1])


def from_json(planned: Mapping[str, Any]) -> tuple[PairPlan, int]:
    """The pair and sign of a row's `plan`."""
    values = dict(planned["pair"])
    return PairPlan(**{**values, "source": SourceSpec(**values["source"])}), int(planned["sign"])
