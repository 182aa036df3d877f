"""Times the whole path and prints what it takes, clip by clip, beside the least that it could take.

    make bench                        # some minutes
    make bench BENCH=--quick          # under a minute: a twelfth of the clips
    make bench BENCH="--json FILE"    # the figures, for machines too

CPU seconds are counted, but where a line says that it goes by the clock. Nothing here fails because something is slow.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import floor, scaling, stages, tables, versus, work
from bench.floor import Floor
from bench.stages import Spent
from builder.fill import Context
from builder.records import FloatArray, ShardPlan

QUICK = 12
"""Of so many cells one is timed in a quick run."""
THINNER = 6
"""Of so many of those one is a task for one and for all cores."""
N_REPEATS = 3
N_CLIPS = 6
"""Stretches of speech that both ways of rendering are timed on."""


def say(lines: Iterable[str]) -> None:
    """Print a table."""
    print("\n".join(lines), end="\n\n", flush=True)


def one_process(shards: Sequence[ShardPlan], context: Context) -> tuple[list[Spent], list[Floor], dict[str, list[FloatArray]]]:
    """Every shard in this process, right behind it the floor of its clips; and some sources of those that the original study has too."""
    spent, found, some = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for shard in shards:
            stages.run(replace(shard, wanted=shard.wanted[:1]), context, Path(folder))  # what is loaded at first use
            took, published, rows = stages.run(shard, context, Path(folder))
            spent.append(took)
            found.append(floor.of(published, rows, Path(folder) / "floor.parquet"))
            if shard.dimension in versus.CATEGORY:
                some[shard.dimension] = versus.some_sources(published)
    return spent, found, some


def _figures(took: Spent, least: Floor) -> dict[str, Any]:
    """A dimension's seconds, JSON-able."""
    return {**vars(took), "floor": {**vars(least), "clip_s": least.clip_s, "sham_s": least.sham_s}}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few clips: whether it works, and roughly what it takes")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    asked = parser.parse_args(argv)

    shards, context = work.load(every=QUICK if asked.quick else 1)
    spent, found, some = one_process(shards, context)
    say(tables.stages(spent))
    say(tables.analyses(spent, found))
    say(tables.floors(spent, found))
    say(tables.summary(spent, found))
    few = [work.thinned(shard, THINNER) for shard in shards]
    one, every = scaling.compared(scaling.cells(few), context, 1 if asked.quick else N_REPEATS)
    say(tables.scaling(one, every))
    rendered = versus.rendering(shards, context, 1 if asked.quick else N_CLIPS)
    say(versus.table(rendered))
    all_in_s = {took.dimension: took.cpu_s / took.n_published for took in spent}
    theirs_s = versus.originals_s(some, shards[0].sample_rate_hz)
    say(versus.whole_path(all_in_s, theirs_s))
    figures = {
        "dimensions": [_figures(took, least) for took, least in zip(spent, found, strict=True)],
        "workers": [vars(one), vars(every)],
        "originals_s": {f"{name} {rate_hz}": seconds for (name, rate_hz), seconds in theirs_s.items()},
        "rendering": {f"{name} {rate_hz}": vars(took) for (name, rate_hz), took in rendered.by.items()},
    }
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
