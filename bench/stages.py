"""Where the time goes while shards are filled and written: by stage, by analysis and by dimension.

The real path runs (`Filler`, then `write_shard`), with clocks put on its stages from outside. An analysis that several measures
share (`Sound.once`) is counted where it's asked for first.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

from bench.clock import Clock, Seconds, replaced
from builder import fill, label, measure, pipeline, render, shard, sources
from builder.acoustics import audio, statistics
from builder.fill import Context, Filler
from builder.records import PairPlan, ShardPlan, Sound, Source
from builder.rows import Clip

STAGES = ("source", "sham: render", "sham: measure", "render", "own", "held", "witness", "label", "FLAC", "row", "Parquet", "other")
"""`own`, `held` and `witness` are measures of the clip, those of its sham are under `sham: measure`; `other` is what has no name."""
OVERHEAD = ("label", "row", "other")
"""What is neither rendering (with the source), nor measuring, nor encoding (FLAC and Parquet)."""

LABEL = (
    *((label, name) for name in ("hear", "judge_heard", "judge_difference", "judge_witness", "leak_jnd", "witness_contrast")),
    *((statistics, name) for name in ("difference", "at_times")),
)


@dataclass(frozen=True)
class Published:
    """A clip that was published, with what it was made of."""

    pair: PairPlan
    clip: Clip
    source: Source


@dataclass
class Spent:
    """What one shard took; all seconds are CPU seconds but `wall_s`.

    Parameters
    ----------
    stage_s, analysis_s
        Seconds by stage (of `STAGES`), and by analysis as `Sound.once` knows it.
    n_tried
        Clips of pairs that were tried, published or not.
    n_sources
        Sources of the published clips.
    audio_s
        Length of the published clips together.
    """

    dimension: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    n_tried: int = 0
    n_published: int = 0
    n_sources: int = 0
    audio_s: float = 0.0
    stage_s: Seconds = field(default_factory=lambda: defaultdict(float))
    analysis_s: Seconds = field(default_factory=lambda: defaultdict(float))


def run(planned: ShardPlan, context: Context, root: Path) -> tuple[Spent, list[Published], list[dict[str, Any]]]:
    """Fill and write a shard; what it took, the clips that it published, and their rows."""
    stages, analyses = Clock(), Clock()
    realised: dict[str, Source] = {}
    made: list[tuple[PairPlan, Clip]] = []
    filler = Filler(planned, context)
    with replaced([*_on_stages(stages), *_on_analyses(analyses), *_watched(realised, made)]):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        filler.run()
        pipeline.write_shard(planned, filler, root, "bench")
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    spent = Spent(planned.dimension, wall_s, cpu_s, stage_s=stages.seconds, analysis_s=analyses.seconds)
    spent.stage_s["other"] = cpu_s - sum(stages.seconds.values())
    spent.n_tried = 2 * sum(report.tried for report in filler.reports.values())
    spent.n_published = len(filler.rows)
    spent.n_sources = len({row["source_id"] for row in filler.rows})
    spent.audio_s = sum(row["duration_s"] for row in filler.rows)
    pairs = {(row["source_id"], row["tier"], row["curve"]) for row in filler.rows}
    kept = [Published(pair, clip, realised[pair.source.source_id]) for pair, clip in made if _key(pair) in pairs]
    return spent, kept, filler.rows


def _key(pair: PairPlan) -> tuple[str, str, str]:
    return pair.source.source_id, pair.tier, pair.curve


def _on_stages(clock: Clock) -> list[tuple[Any, str, Callable[[Any], Any]]]:
    """The stages' functions, each counted under its stage; measures of a sham under the sham."""
    shams: WeakSet[Sound] = WeakSet()

    def sham(function: Callable[..., Sound]) -> Callable[..., Sound]:
        counted = clock.timed(function, "sham: render")

        def noted(*args: Any) -> Sound:
            made = counted(*args)
            shams.add(made)
            return made

        return noted

    def of(name: str) -> Callable[[Any], Any]:
        return lambda function: clock.timed(function, name)

    def measured(name: str) -> Callable[[Any], Any]:
        return lambda function: clock.timed(function, lambda sound, *_: "sham: measure" if sound in shams else name)

    return [
        (sources, "realise", of("source")),
        (render, "sham", sham),
        (render, "clip", of("render")),
        (measure, "measure", measured("own")),
        (measure, "held", measured("held")),
        (measure, "witness", measured("witness")),
        *((owner, name, of("label")) for owner, name in LABEL),
        (audio, "flac_bytes", of("FLAC")),
        (fill, "row_of", of("row")),
        (shard, "write", of("Parquet")),
    ]


def _on_analyses(clock: Clock) -> list[tuple[Any, str, Callable[[Any], Any]]]:
    """What a sound computes once, by its name there; resynthesis, and reading or synthesis of sources, by the stage's."""

    def once(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda sound, name, compute: function(sound, name, clock.timed(compute, name))

    return [
        (Sound, "once", once),
        (sources, "realise", lambda function: clock.timed(function, "source")),
        (render, "clip", lambda function: clock.timed(function, "render")),
    ]


def _watched(realised: dict[str, Source], made: list[tuple[PairPlan, Clip]]) -> list[tuple[Any, str, Callable[[Any], Any]]]:
    """Notes of the sources and clips that are made."""

    def realise(function: Callable[..., Source]) -> Callable[..., Source]:
        def noted(spec: Any, *args: Any) -> Source:
            realised[spec.source_id] = function(spec, *args)
            return realised[spec.source_id]

        return noted

    def row_of(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(pair: PairPlan, clip: Clip, **how: Any) -> Any:
            made.append((pair, clip))
            return function(pair, clip, **how)

        return noted

    return [(sources, "realise", realise), (fill, "row_of", row_of)]
