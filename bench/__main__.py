"""Times the whole path and prints what it takes, clip by clip, beside the least that it could take.

make bench                        # some minutes
make bench BENCH=--quick          # under a minute: a twelfth of the clips
make bench BENCH="--json FILE"    # the figures, for machines too
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import floor, stages, tables, work
from bench.floor import Floor
from bench.stages import Spent
from builder.fill import Context
from builder.records import ShardPlan

QUICK = 6
"""Of so many cells one is timed in a quick run."""


def say(lines: Iterable[str]) -> None:
    """Print a table."""
    print("\n".join(lines), end="\n\n", flush=True)


def one_process(shards: Sequence[ShardPlan], context: Context) -> tuple[list[Spent], list[Floor]]:
    """Every shard in this process, and right behind it the floor of its clips."""
    spent, found = [], []
    with tempfile.TemporaryDirectory() as folder:
        for shard in shards:
            stages.run(replace(shard, wanted=shard.wanted[:1]), context, Path(folder))  # what is loaded at first use
            took, published, rows = stages.run(shard, context, Path(folder))
            spent.append(took)
            found.append(floor.of(published, rows, Path(folder) / "floor.parquet"))
    return spent, found


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
    spent, found = one_process(shards, context)
    say(tables.stages(spent))
    say(tables.analyses(spent, found))
    say(tables.floors(spent, found))
    say(tables.summary(spent, found))
    figures = {"dimensions": [_figures(took, least) for took, least in zip(spent, found, strict=True)]}
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
