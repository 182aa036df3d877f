"""All cores against one: the same tasks on as many workers as there are cores, and on one, in turns, each worker kept on its core.

A task is one cell of a shard: it's filled and written like a shard of its own. Tasks are dealt out longest first, so that the ratio
tells what workers cost each other and not how a few large shards happen to end. Workers are started, and have done every task once,
before anything is timed. The machine may have other work: runs take turns, and medians count.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.memory import now_and_peak_mb
from builder import engines, pipeline
from builder.fill import Context, Filler
from builder.records import ShardPlan
from builder.workers import Crew


@dataclass
class Runs:
    """What some runs of a crew over the same tasks took.

    Parameters
    ----------
    wall_s
        Of each run.
    cpu_s
        CPU seconds of all workers together in each run: more than one worker's where they're in each other's way.
    peak_mb
        Most memory that each worker held, by process.
    """

    n_workers: int
    n_tried: int = 0
    n_published: int = 0
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_mb: dict[int, float] = field(default_factory=dict)

    @property
    def median_s(self) -> float:
        """Of the runs."""
        return statistics.median(self.wall_s)

    @property
    def median_cpu_s(self) -> float:
        """Of the runs."""
        return statistics.median(self.cpu_s)

    @property
    def core_share(self) -> float:
        """Share of the workers' cores that they had; the rest went to other programs, or to waiting for the last task."""
        return statistics.median(cpu_s / wall_s for cpu_s, wall_s in zip(self.cpu_s, self.wall_s, strict=True)) / self.n_workers


@dataclass(frozen=True)
class Done:
    """One task: clips, seconds, and the worker that did it."""

    n_tried: int
    n_published: int
    cpu_s: float
    process: int
    peak_mb: float


def cores() -> list[int]:
    """Cores that this process may use, no more than its control group's quota; one per worker. Where the system doesn't tell, numbers."""
    n_cores = engines.n_cores()
    return sorted(os.sched_getaffinity(0))[:n_cores] if hasattr(os, "sched_getaffinity") else list(range(n_cores))


def take_core(among: Sequence[int], claims: Path) -> None:
    """Keep this process on the first core that no other worker has claimed."""
    for core in among:
        try:
            (claims / f"core-{core}").touch(exist_ok=False)
        except FileExistsError:
            continue
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {core})
        return


def do(planned: ShardPlan, context: Context) -> Done:
    """Fill and write one task."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        filler = Filler(planned, context)
        filler.run()
        pipeline.write_shard(planned, filler, Path(folder), "bench")
    n_tried = 2 * sum(report.tried for report in filler.reports.values())
    return Done(n_tried, len(filler.rows), time.process_time() - start, os.getpid(), now_and_peak_mb()[1])


def cells(shards: Sequence[ShardPlan]) -> list[ShardPlan]:
    """A task for each cell."""
    return [replace(shard, wanted=(cell,)) for shard in shards for cell in shard.wanted]


def compared(tasks: Sequence[ShardPlan], context: Context, n_repeats: int) -> tuple[Runs, Runs]:
    """One worker and one per core over the same tasks, in turns."""
    found = Runs(1), Runs(len(cores()))
    with ExitStack() as stack:
        crews = []
        for runs in found:
            claims = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            crews.append(stack.enter_context(closing(Crew(runs.n_workers, take_core, (cores(), claims)))))
        first = [done for _, done in sorted(crews[0].run(do, [(task, context) for task in tasks]), key=lambda item: item[0])]
        order = sorted(range(len(tasks)), key=lambda number: -first[number].cpu_s)
        listed = [(tasks[number], context) for number in order]
        known: set[int] = set()
        while len(known) < found[1].n_workers:
            known |= {done.process for _, done in crews[1].run(do, listed)}
        for _ in range(n_repeats):
            for crew, runs in zip(crews, found, strict=True):
                _run(crew, runs, listed)
    return found


def _run(crew: Crew, runs: Runs, listed: list[tuple[ShardPlan, Context]]) -> None:
    """One timed run."""
    start = time.perf_counter()
    done = [item for _, item in crew.run(do, listed)]
    runs.wall_s.append(time.perf_counter() - start)
    runs.n_tried = sum(item.n_tried for item in done)
    runs.n_published = sum(item.n_published for item in done)
    runs.cpu_s.append(sum(item.cpu_s for item in done))
    for item in done:
        runs.peak_mb[item.process] = max(runs.peak_mb.get(item.process, 0.0), item.peak_mb)
