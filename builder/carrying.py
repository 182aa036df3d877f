"""What each real source can carry, and how many sources a split needs: known from the survey, before anything is rendered.

A dimension says what a recording must have to be swept: a voice over 180 Hz for roughness, a spectrum that reaches up to the clear end
of the sweep for clarity. What the survey found in each stretch tells which of them have it. So it's known before rendering which
cells a split can fill, and speakers are given to splits by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from builder.acoustics import meters
from builder.dimensions import Dimension
from builder.recipe import SPEECH_KINDS, DimensionRecipe, Recipe
from builder.records import BoolArray, Cell, FloatArray, SourceSpec

FACTS = ("bandwidth_hz", "f0_hz", "reach_octaves", "tilt_db_per_octave")
ACCEPTED = 0.5
"""Share of candidates that are accepted where a dimension doesn't tell: the least that was measured on the embedded corpus, of those
that have what they need, was 0.5 (4 J of vibrato on running speech)."""
RUNS_OUT = 0.001
"""How often a cell may run out of candidates by chance, of those that have enough sources by `enough`."""

Least = tuple[float, ...]
"""The least value of each of `FACTS` that a source must have; -inf where any will do."""


def least(dimension: Dimension, span: float) -> Least:
    """What a recording must have to carry a span of a dimension."""
    asked: dict[str, float] = {need.fact: need.at_least(span) for need in dimension.needs}
    return tuple(dimension.band.needs_hz if fact == "bandwidth_hz" else asked.get(fact, -np.inf) for fact in FACTS)


def words(dimension: Dimension, span: float) -> str:
    """What sources that can carry it do, for people; empty where any will do."""
    asked = [f"are of recordings that reach up to {dimension.band.needs_hz:.0f} Hz"] if dimension.band.needs_hz > 0.0 else []
    for need in dimension.needs:
        at_least = need.at_least(span)
        shown = {"reach_octaves": meters.REFERENCE_HZ * 2.0**at_least, "tilt_db_per_octave": abs(at_least)}
        asked.append(need.words.format(shown.get(need.fact, at_least)))
    return " and ".join(asked)


def facts_of(specs: Sequence[SourceSpec]) -> FloatArray:
    """`FACTS` of each source, float64, shape (n_sources, n_facts); inf where nothing was surveyed."""
    unknown = (np.inf,) * len(FACTS)
    known = [unknown if (found := spec.carrier) is None else tuple(getattr(found, fact) for fact in FACTS) for spec in specs]
    return np.array(known, dtype=np.float64).reshape(-1, len(FACTS))


def able(facts: FloatArray, asked: Least) -> BoolArray:
    """Which sources have what is asked, shape (n_sources,)."""
    found: BoolArray = np.all(facts >= np.array(asked), axis=1)
    return found


@lru_cache(maxsize=1024)
def enough(wanted: int, accepted: float) -> int:
    """Sources that a cell needs, with room to spare: it then runs out in one build of 1,000 at most.

    Parameters
    ----------
    wanted
        Pairs, or controls, of the cell.
    accepted
        Share of candidates that pass all the rules of the label; each candidate counts as a draw of its own.
    """
    n_sources = wanted
    while stats.binom.cdf(wanted - 1, n_sources, accepted) > RUNS_OUT:
        n_sources += 1
    return n_sources


@dataclass(frozen=True)
class Asked:
    """What a recipe asks of the real sources of one kind in one split, for one cell.

    Parameters
    ----------
    cell, wanted
        The cell and its pairs, or controls.
    span
        Of the sweep; 0 of a control.
    least
        What each source must have.
    enough
        How many such sources the split should have.
    """

    cell: Cell
    wanted: int
    span: float
    least: Least
    enough: int


def asked_of(part: DimensionRecipe, cell: Cell, wanted: int) -> Asked:
    """What one cell of a dimension asks."""
    span = 0.0 if cell.is_control else part.span(cell.kind, cell.tier, cell.curve)
    return Asked(cell, wanted, span, least(part.spec, span), enough(wanted, part.spec.accepted.get(cell.kind, ACCEPTED)))


def demands(recipe: Recipe) -> Iterator[Asked]:
    """What a recipe asks of real sources, cell by cell."""
    for part in recipe.dimensions:
        for split in recipe.splits:
            for cell, wanted in (*part.cells(split), *part.control_cells(split)):
                if cell.kind in SPEECH_KINDS:
                    yield asked_of(part, cell, wanted)


def by_kind_and_least(recipe: Recipe) -> Mapping[tuple[str, Least], Mapping[str, tuple[int, int]]]:
    """(kind, least) -> split -> sources that its largest cell wants, and that are enough for it."""
    found: dict[tuple[str, Least], dict[str, tuple[int, int]]] = {}
    for asked in demands(recipe):
        of_split = found.setdefault((asked.cell.kind, asked.least), dict.fromkeys(recipe.splits, (0, 0)))
        wanted, room = of_split[asked.cell.split]
        of_split[asked.cell.split] = (max(wanted, asked.wanted), max(room, asked.enough))
    return found
