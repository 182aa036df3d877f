"""What memory a worker holds, shard after shard of a recipe as it is.

    python -m bench.memory                     # recipes/default.yaml through one worker, a line for each shard
    python -m bench.memory --clips 20000       # round after round under new seeds, so that no clip comes twice

What the worker holds at the end of each shard, and at most so far, is asked of the system. In the first half it grows: libraries
load, filters and weights are kept, and the heap gets as large as the largest shard needs it; growth is what comes after.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from builder import pipeline
from builder.engines import give_back_memory
from builder.fill import Context, Filler
from builder.records import ShardPlan
from builder.workers import Crew

MB = 1024.0**2
STATUS = Path("/proc/self/status")
START_SHARE = 0.5


RECIPE = Path(__file__).parent.parent / "recipes" / "default.yaml"
MOST_MB = 1000.0
"""What a worker may hold at any moment, with the embedded corpus."""


@dataclass(frozen=True)
class Held:
    """What a process holds after a shard and some clips; in MB: now, and at most so far."""

    n_clips: int
    now_mb: float
    peak_mb: float
    shard: str = ""


def now_and_peak_mb() -> tuple[float, float]:
    """Resident memory of this process, now and at most.

    On Linux from its status: `ru_maxrss` of a process that was started by a larger one is that one's. Elsewhere both are `ru_maxrss`.
    """
    if STATUS.is_file():
        lines = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
        now_mb, peak_mb = (float(lines[name].split()[0]) / 1024.0 for name in ("VmRSS", "VmHWM"))
        return now_mb, peak_mb
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (MB if sys.platform == "darwin" else 1024.0)
    return most, most


def held_after(planned: ShardPlan, context: Context) -> tuple[int, float, float]:
    """Make one shard: clips tried, and what this process holds then, now and at most, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        filler = Filler(planned, context)
        filler.run()
        pipeline.write_shard(planned, filler, Path(folder), "bench")
        n_tried = 2 * sum(report.tried for report in filler.reports.values())
    del filler
    give_back_memory()
    return n_tried, *now_and_peak_mb()


def growth_mb(held: Sequence[Held]) -> float:
    """MB per 1,000 clips, straight through what was held after the start; `nan` of fewer than three."""
    since = held[-1].n_clips * START_SHARE
    rest = [item for item in held if item.n_clips >= since]
    if len(rest) < 3:
        return float("nan")
    return 1000.0 * float(np.polyfit([item.n_clips for item in rest], [item.now_mb for item in rest], 1)[0])


def through_one_worker(recipe: Path = RECIPE, n_clips: int = 0) -> Generator[Held, None, None]:
    """What one worker holds after each shard of a recipe, largest first as in a build; under further seeds up to so many clips."""
    done = 0
    with closing(Crew(1)) as crew:
        for seed in itertools.count(1):
            planned, gathered = pipeline.load_plan(recipe, seed)
            context = Context(gathered.corpora, planned.recipe.speech, gathered.bandwidth_hz)
            shards = sorted(planned.shards, key=lambda shard: -shard.n_wanted)
            for number, (tried, now_mb, peak_mb) in crew.run(held_after, [(shard, context) for shard in shards]):
                done += tried
                yield Held(done, now_mb, peak_mb, shards[number].name)
            if done >= n_clips:
                return


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="what to build (default: recipes/default.yaml)")
    parser.add_argument("--clips", type=int, default=0, help="clips to try at least (default: those of one build)")
    asked = parser.parse_args(argv)
    held: list[Held] = []
    print(f"{'shard':<44}{'clips':>8}{'held MB':>10}{'most MB':>10}")
    for item in through_one_worker(asked.recipe, asked.clips):
        print(f"{item.shard:<44}{item.n_clips:>8}{item.now_mb:>10.0f}{item.peak_mb:>10.0f}", flush=True)
        held.append(item)
    print(f"growth {growth_mb(held):+.2f} MB per 1,000 clips in the second half; at most {held[-1].peak_mb:.0f} MB of {MOST_MB:.0f}")


if __name__ == "__main__":
    main()
