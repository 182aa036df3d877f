"""The sound of today is the sound of when the goldens were made: an upgrade can't change it silently."""

from __future__ import annotations

import json

import pytest
from make_goldens import ROOT, TARGET, measured

from builder import fill, recipe, rows, sources
from builder.records import Margins


def test_sweeps_measure_what_they_measured_before(real: sources.Gathered, default_recipe: recipe.Recipe) -> None:
    """Every figure of a dimension that has goldens is within 0.002 of its own; none of its kinds is new, none is gone."""
    goldens = json.loads(TARGET.read_text(encoding="utf-8"))
    now = measured(real, default_recipe.speech)
    inspected = {name.split()[0] for name in goldens}
    assert [name for name in sorted(now) if name.split()[0] in inspected] == sorted(goldens)
    for name, figures in goldens.items():
        assert now[name] == pytest.approx(figures, abs=0.002), name


def test_the_readme_shows_a_real_row(real: sources.Gathered, default_recipe: recipe.Recipe) -> None:
    """The README's row is rendered again from its plan: the same audio checksum and the same measurements, as printed there."""
    row = json.loads((ROOT / "docs" / "example.json").read_text(encoding="utf-8"))
    pair, sign = rows.from_json(json.loads(row["plan"]))
    source = sources.realise(pair.source, pair.sample_rate_hz, real.corpora, default_recipe.speech)
    made = rows.row_of(pair, fill.judge(pair, source, Margins(), (sign,))[0], increase_first=row["choices"][0] == "increase")
    assert made["audio_sha256"] == row["audio_sha256"]
    for key in ("id", "effect", "effect_jnd", "question", "witness", "difference_gain"):
        assert made[key] == row[key], key
    assert {name: made["leak_jnd"][name] for name in row["leak_jnd"]} == row["leak_jnd"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"'effect': {row['effect']!r}," in readme
    assert f"'id': {row['id']!r}," in readme
