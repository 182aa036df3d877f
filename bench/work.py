"""What is timed: shards of recipes/bench.yaml as a build makes them, real speech and synthesis, all dimensions.

Each shard is taken as a later one of a large build. The first shard of each split also asks what imposed labels would have been
worth (`builder.imposed`): a survey whose cost doesn't grow with the build, and which is no part of what a clip costs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder import pipeline
from builder.fill import Context
from builder.records import ShardPlan

RECIPE = Path(__file__).parent.parent / "recipes" / "bench.yaml"


def load(recipe: Path = RECIPE, seed: int | None = None, every: int = 1) -> tuple[list[ShardPlan], Context]:
    """The shards of a recipe and what a worker needs beside them.

    Parameters
    ----------
    recipe, seed
        What to plan.
    every
        Every so-manieth cell is kept: less work of the same kind.
    """
    planned, gathered = pipeline.load_plan(recipe, seed)
    shards = [replace(thinned(shard, every), index=1, count=2) for shard in planned.shards]
    return shards, Context(gathered.corpora, planned.recipe.speech, gathered.bandwidth_hz)


def thinned(shard: ShardPlan, every: int, start: int = 0) -> ShardPlan:
    """A shard with every so-manieth of its cells, from one on."""
    return replace(shard, wanted=shard.wanted[start::every])
