"""Writes tests/goldens.json: what every dimension's sweep measures today on one fixed source of each kind.

    python tests/make_goldens.py

Inspected by hand when made: each contrast has its planned sign and lies within 15 % of the plan on steady carriers; spectrograms and
contours of the same clips were looked at with `vocalgrad show`. A change of these numbers is a change of the sound: say why in
CHANGELOG.md before making them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from builder import label, measure, recipe, render, sources, synthesis
from builder.acoustics import curves, meters
from builder.dimensions import DIMENSIONS
from builder.errors import Refused
from builder.records import PairPlan, SourceSpec

ROOT = Path(__file__).parent.parent
TARGET = Path(__file__).parent / "goldens.json"
TIER_J = 4.0


def pair_of(dimension: str, jnd: float, spec: SourceSpec, curve: str) -> PairPlan:
    """A medium pair on a source."""
    contrast = TIER_J * jnd
    span = round(contrast / curves.end_to_start(curve), 6)
    return PairPlan(dimension, "medium", curve, "test", span, contrast, jnd, spec, 1.0, 16_000)


def first_source(kind: str, gathered: sources.Gathered) -> list[SourceSpec]:
    """Candidates of a kind, always in the same order."""
    if kind in gathered.by_kind:
        return list(gathered.by_kind[kind])
    return [synthesis.drawn(kind, "test", number, 1) for number in range(5)]


def measured(gathered: sources.Gathered, rule: recipe.SpeechRule) -> dict[str, Any]:
    """Figures per dimension and kind of source."""
    found: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        for kind in sorted(dimension.max_span):
            jnd = dimension.jnd.on(kind)
            if TIER_J * jnd / curves.end_to_start("linear") > dimension.max_span[kind]:
                continue
            for spec in first_source(kind, gathered):
                try:
                    found[f"{dimension.name} {kind}"] = _figures(pair_of(dimension.name, jnd, spec, "linear"), gathered, rule)
                    break
                except Refused:
                    continue
    return found


def _figures(pair: PairPlan, gathered: sources.Gathered, rule: recipe.SpeechRule) -> dict[str, float]:
    source = sources.realise(pair.source, pair.sample_rate_hz, gathered.corpora, rule)
    dimension = next(item for item in DIMENSIONS if item.name == pair.dimension)
    figures: dict[str, float] = {}
    for name, sign in (("sham", 0), ("up", 1), ("down", -1)):
        sound = render.clip(pair, source, sign)
        heard = label.hear(measure.measure(sound, dimension), source.start_s, source.end_s)
        figures[f"{name} contrast"] = heard.contrast
        figures[f"{name} rms"] = round(float(np.sqrt(np.mean(sound.samples**2))), 5)
        figures[f"{name} loudness"] = round(float(np.nanmedian(meters.momentary_loudness_lufs(sound).value)), 3)
    return figures


if __name__ == "__main__":
    used = recipe.load(ROOT / "recipes" / "default.yaml")
    numbers = measured(sources.gather(used, ROOT / "recipes"), used.speech)
    TARGET.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(numbers, indent=1, sort_keys=True))
