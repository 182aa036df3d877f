"""The bench's tables, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.clock import Seconds, add
from bench.floor import Floor
from bench.scaling import Runs
from bench.stages import OVERHEAD, STAGES, Spent
from builder.words import counted

N_ANALYSES = 12
"""Analyses that are listed, the costliest ones."""
SHOWN_MS = 0.05
QUIET = 0.85
"""Share of their cores that workers have on a machine with nothing else to do, at least."""
COSTS = ("resynth", "analyses", "FLAC", "Parquet", "floor", "sham's", "all-in")


def total(spent: Sequence[Spent]) -> Spent:
    """All dimensions as one."""
    whole = Spent("all")
    for item in spent:
        whole.wall_s += item.wall_s
        whole.cpu_s += item.cpu_s
        whole.n_tried += item.n_tried
        whole.n_published += item.n_published
        whole.n_sources += item.n_sources
        whole.audio_s += item.audio_s
        add(whole.stage_s, item.stage_s)
        add(whole.analysis_s, item.analysis_s)
    return whole


def summed(floors: Sequence[Floor]) -> Floor:
    """All dimensions as one."""
    whole = Floor()
    for item in floors:
        whole.add(item)
    return whole


def overhead(spent: Spent) -> float:
    """Share of the time that is neither rendering, nor measuring, nor encoding."""
    return sum(spent.stage_s[name] for name in OVERHEAD) / spent.cpu_s


def stages(spent: Sequence[Spent]) -> Iterator[str]:
    """Milliseconds per published clip by stage and dimension."""
    yield "ms of CPU per published clip, by stage (each moment counted once)"
    yield f"{'dimension':<14}" + "".join(f"{name.split(': ')[-1]:>9}" for name in STAGES) + f"{'all-in':>9}"
    for item in [*spent, total(spent)]:
        per_clip = [1000.0 * item.stage_s[name] / item.n_published for name in STAGES]
        yield f"{item.dimension:<14}" + "".join(f"{ms:>9.1f}" for ms in per_clip) + f"{1000.0 * item.cpu_s / item.n_published:>9.1f}"
    yield "the first render and measure are the sham's"


def floors(spent: Sequence[Spent], found: Sequence[Floor]) -> Iterator[str]:
    """The floor beside what clips cost, by dimension."""
    yield "the floor: ms of CPU per published clip, timed alone on the same clips"
    heads = ("clip s", *COSTS, "/ floor", "/ with sham", "ms/s", "tried/pub", "clips/sham")
    yield f"{'dimension':<14}" + "".join(f"{head:>{max(len(head) + 2, 9)}}" for head in heads)
    for item, least in [*zip(spent, found, strict=True), (total(spent), summed(found))]:
        n = item.n_published
        parts = (least.resynthesis_s, least.analyses_s, least.flac_s, least.parquet_s, least.clip_s, least.sham_s, item.cpu_s)
        ms = [1000.0 * seconds / n for seconds in parts]
        ratios = item.cpu_s / least.clip_s, item.cpu_s / (least.clip_s + least.sham_s)
        rates = 1000.0 * item.cpu_s / item.audio_s, item.n_tried / n, least.n_clips / least.n_shams
        cells = [item.audio_s / n, *ms, *ratios, *rates]
        yield f"{item.dimension:<14}" + "".join(f"{cell:>{max(len(head) + 2, 9)}.2f}" for head, cell in zip(heads, cells, strict=True))
    yield "ms/s: all-in per second of audio; tried/pub: clips tried per published one; clips/sham: published clips that share a sham"


def analyses(spent: Sequence[Spent], found: Sequence[Floor]) -> Iterator[str]:
    """The costliest analyses, all-in and at the floor, and where they're spent."""
    whole, least = total(spent), summed(found)
    yield f"the costliest {N_ANALYSES} of resynthesis and analyses: ms of CPU per published clip"
    yield f"{'':<28}{'all-in':>9}{'floor':>9}  most in (ms per clip there)"
    for name, seconds in _largest(whole.analysis_s, N_ANALYSES):
        where = _largest({item.dimension: 1000.0 * item.analysis_s[name] / item.n_published for item in spent}, 3)
        most = ", ".join(f"{dimension} {ms:.1f}" for dimension, ms in where if ms >= SHOWN_MS)
        yield f"{name:<28}{1000.0 * seconds / whole.n_published:>9.1f}{1000.0 * least.analysis_s[name] / least.n_clips:>9.1f}  {most}"


def _largest(seconds: Seconds, count: int) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])[:count]


def summary(spent: Sequence[Spent], found: Sequence[Floor]) -> Iterator[str]:
    """The figures that the aims are about."""
    whole, least = total(spent), summed(found)
    n = whole.n_published
    yield (
        f"{counted(n, 'clip')} of {whole.audio_s / n:.2f} s published of {whole.n_tried} tried, {n / whole.n_sources:.1f} per source; "
        f"one process: {n / whole.wall_s:.1f} published and {whole.n_tried / whole.wall_s:.1f} tried clips per second (wall)"
    )
    yield (
        f"all-in {1000.0 * whole.cpu_s / n:.1f} ms of CPU per published clip, {1000.0 * whole.cpu_s / whole.n_tried:.1f} per tried one, "
        f"{1000.0 * whole.cpu_s / whole.audio_s:.1f} per second of audio"
    )
    sham_s = sum(whole.stage_s[name] for name in STAGES if name.startswith("sham"))
    yield f"shams take {100.0 * sham_s / whole.cpu_s:.0f} % of all"
    yield (
        f"all-in / floor {whole.cpu_s / least.clip_s:.2f}; / floor with the shams' {whole.cpu_s / (least.clip_s + least.sham_s):.2f}; "
        f"overhead outside render, measure and encode {100.0 * overhead(whole):.1f} %"
    )


def scaling(one: Runs, every: Runs) -> Iterator[str]:
    """All cores against one, and the workers' memory."""
    times = f"{counted(len(one.wall_s), 'run')} of each"
    yield f"workers on their own cores, {times} in turns, over the same {counted(one.n_tried, 'clip')} ({one.n_published} published)"
    for runs in (one, every):
        seconds = ", ".join(f"{wall_s:.1f}" for wall_s in runs.wall_s)
        yield (
            f"{counted(runs.n_workers, 'worker')}: {seconds} s; {runs.n_published / runs.median_s:.1f} published and "
            f"{runs.n_tried / runs.median_s:.1f} tried clips per second (median); they had their cores {runs.core_share:.0%} of the time"
        )
    ratio, grown = one.median_s / every.median_s, every.median_cpu_s / one.median_cpu_s - 1.0
    yield (
        f"{counted(every.n_workers, 'worker')} against 1: {ratio:.2f} times as fast by the clock; "
        f"CPU time of the same work {100.0 * grown:+.0f} %"
    )
    if min(one.core_share, every.core_share) < QUIET:
        yield "other programs had much of the cores: the clock says little"
    peaks = ", ".join(f"{peak_mb:.0f}" for runs in (one, every) for peak_mb in runs.peak_mb.values())
    yield f"most memory of a worker: {peaks} MB"
