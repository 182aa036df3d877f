"""The sound of today is the sound of when the goldens were made: an upgrade can't change it silently."""

from __future__ import annotations

import json

import pytest
from make_goldens import TARGET, measured

from builder import recipe, sources


def test_sweeps_measure_what_they_measured_before(real: sources.Gathered, default_recipe: recipe.Recipe) -> None:
    """Every figure of every dimension and kind is within 0.002 of its golden; none is new, none is gone."""
    goldens = json.loads(TARGET.read_text(encoding="utf-8"))
    now = measured(real, default_recipe.speech)
    assert sorted(now) == sorted(goldens)
    for name, figures in goldens.items():
        assert now[name] == pytest.approx(figures, abs=0.002), name
