"""Our rendering and our whole path beside the original study's way, category by category, in one run on the same clips.

Rendering: stretches of real speech, cut or looped to 5 s, at 16 and at 48 kHz. Ours is `render.clip`: the sweep, its held dimensions
restored, rounded to 16 bit; the sham, and with it all that is found out about the source once, is timed apart, for a source's conditions
share it. Recordings on which one of the nine sweeps is refused (a voice too low for roughness, say) are passed over and counted. On
speech as it is some labels would fail (tempo, tremolo); they're rendered all the same, for nothing is measured here.

Whole path: what a published clip of the nine dimensions cost all-in, rejected candidates and all, beside the original's rendering of
the sources of these very clips.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench import original
from bench.clock import Clock
from bench.stages import Published
from builder import plan, render, sources
from builder.acoustics import audio
from builder.dimensions import DIMENSIONS
from builder.errors import Refused
from builder.fill import Context
from builder.records import FloatArray, PairPlan, ShardPlan, Sound, Source
from builder.words import counted

CATEGORY = {dimension.name: dimension.paper_category for dimension in DIMENSIONS if dimension.paper_category}
RATES_HZ = (16_000, 48_000)
CLIP_S = 5.0
N_SOURCES_EACH = 6
"""Sources of published clips of each dimension that the original's way is timed on."""


@dataclass
class Rendered:
    """CPU seconds of one dimension at one rate: each rendering of ours, each sham, and each of the original's."""

    ours_s: list[float] = field(default_factory=list)
    sham_s: list[float] = field(default_factory=list)
    theirs_s: list[float] = field(default_factory=list)


@dataclass
class Rendering:
    """By dimension and rate; and the recordings that were passed over."""

    n_clips: int = 0
    n_passed_over: int = 0
    by: dict[tuple[str, int], Rendered] = field(default_factory=dict)

    def mean_s(self, what: str, rate_hz: int) -> float:
        """Mean over the nine of the means of `ours_s`, `sham_s` or `theirs_s`."""
        return float(np.mean([np.mean(getattr(self.by[name, rate_hz], what)) for name in CATEGORY]))


def rendering(shards: Sequence[ShardPlan], context: Context, n_clips: int) -> Rendering:
    """Both ways of rendering on the first recordings that carry all nine sweeps."""
    warm_up()
    found = Rendering(by={(name, rate_hz): Rendered() for name in CATEGORY for rate_hz in RATES_HZ})
    pairs = {shard.dimension: _pair(shard) for shard in shards if shard.dimension in CATEGORY}
    for spec in next(shard.pool["speech"] for shard in shards if shard.dimension == "pitch"):
        if found.n_clips == n_clips:
            break
        try:
            stretch = sources.realise(spec, RATES_HZ[0], context.corpora, context.speech)
            timed = {(name, rate_hz): _both(pairs[name], stretch, rate_hz) for name in CATEGORY for rate_hz in RATES_HZ}
        except Refused:
            found.n_passed_over += 1
            continue
        found.n_clips += 1
        for key, (ours_s, sham_s, theirs_s) in timed.items():
            found.by[key].ours_s += ours_s
            found.by[key].sham_s.append(sham_s)
            found.by[key].theirs_s += theirs_s
    return found


def warm_up() -> None:
    """What is loaded or compiled at the original's first use, so that it isn't timed."""
    for category in CATEGORY.values():
        original.made(str(category), np.linspace(-0.1, 0.1, RATES_HZ[0]), RATES_HZ[0], rising=True)


def _pair(shard: ShardPlan) -> PairPlan:
    """A pair of the dimension in its middle tier, as it's planned there, on speech where speech carries it."""
    middle = [cell for cell, _ in shard.wanted if cell.tier == "medium" and cell.curve == "linear"] or [cell for cell, _ in shard.wanted]
    cell = min(middle, key=lambda cell: cell.kind != "speech")
    return next(itertools.islice(plan.candidates(shard, cell), 1))


def _both(pair: PairPlan, stretch: Source, rate_hz: int) -> tuple[list[float], float, list[float]]:
    """Seconds of our two clips, of their sham, and of the original's two clips."""
    source = five_seconds(stretch, rate_hz)
    pair = replace(pair, source=stretch.spec, sample_rate_hz=rate_hz)
    clock = Clock()
    with clock.stretch("sham"):
        render.sham(pair, source)
    for sign in (1, -1):
        with clock.stretch(f"ours {sign}"):
            render.clip(pair, source, sign)
        with clock.stretch(f"theirs {sign}"):
            original.made(str(CATEGORY[pair.dimension]), source.sound.samples, rate_hz, rising=sign > 0)
    ours_s, theirs_s = ([clock.seconds[f"{whose} {sign}"] for sign in (1, -1)] for whose in ("ours", "theirs"))
    return ours_s, clock.seconds["sham"], theirs_s


def five_seconds(source: Source, rate_hz: int) -> Source:
    """A source cut or looped to 5 s, at another rate, with nothing known about it."""
    samples = np.resize(audio.resampled(source.sound.samples, source.sound.sample_rate_hz, rate_hz), round(CLIP_S * rate_hz))
    sound = audio.faded(Sound(samples, rate_hz))
    return Source(source.spec, sound, 0.0, CLIP_S, source.seed)


def originals_s(published: Mapping[str, Sequence[FloatArray]], from_hz: int) -> dict[tuple[str, int], float]:
    """Mean seconds of the original's rendering of sources of published clips, by dimension and rate."""
    found = {}
    for name, rate_hz in itertools.product(published, RATES_HZ):
        clock = Clock()
        for samples in published[name]:
            resampled = audio.resampled(samples, from_hz, rate_hz)
            with clock.stretch("theirs"):
                original.made(str(CATEGORY[name]), resampled, rate_hz, rising=True)
        found[name, rate_hz] = clock.seconds["theirs"] / len(published[name])
    return found


def some_sources(published: Sequence[Published]) -> list[FloatArray]:
    """Samples of a few sources, from all over what was published."""
    step = max(len(published) // N_SOURCES_EACH, 1)
    return [item.source.sound.samples for item in published[::step]][:N_SOURCES_EACH]


def table(found: Rendering) -> Iterator[str]:
    """Rendering beside rendering."""
    yield (
        f"rendering alone, {found.n_clips} stretches of speech of 5 s, rising and falling: ms of CPU per clip "
        f"({counted(found.n_passed_over, 'recording')} passed over: one of the nine is refused there)"
    )
    heads = [f"{what} {rate_hz // 1000}k" for rate_hz in RATES_HZ for what in ("ours", "sham", "theirs", "ratio")]
    yield f"{'dimension':<14}{'category':<18}" + "".join(f"{head:>12}" for head in heads)
    for name, category in CATEGORY.items():
        cells = [
            float(np.mean(getattr(found.by[name, rate_hz], what))) for rate_hz in RATES_HZ for what in ("ours_s", "sham_s", "theirs_s")
        ]
        yield f"{name:<14}{category:<18}" + _cells(cells)
    yield f"{'mean of nine':<32}" + _cells(
        [found.mean_s(what, rate_hz) for rate_hz in RATES_HZ for what in ("ours_s", "sham_s", "theirs_s")]
    )


def _cells(seconds: Sequence[float]) -> str:
    """Ours, sham, theirs and theirs over ours, for each rate."""
    rows = [seconds[start : start + 3] for start in range(0, len(seconds), 3)]
    return "".join(f"{1000 * ours:>12.1f}{1000 * sham:>12.1f}{1000 * theirs:>12.1f}{theirs / ours:>12.2f}" for ours, sham, theirs in rows)


def whole_path(all_in_s: Mapping[str, float], theirs_s: Mapping[tuple[str, int], float]) -> Iterator[str]:
    """Our clips, labels measured, beside the original's rendering of the same sources, means of nine."""
    ours_s = float(np.mean([all_in_s[name] for name in CATEGORY]))
    yield "our whole path, every label measured, beside the original's rendering of the same sources; mean of nine, ms of CPU per clip"
    for rate_hz in RATES_HZ:
        theirs = float(np.mean([theirs_s[name, rate_hz] for name in CATEGORY]))
        yield (
            f"ours at {RATES_HZ[0] // 1000} kHz, all-in per published clip {1000 * ours_s:.1f}; theirs at {rate_hz // 1000} kHz "
            f"{1000 * theirs:.1f}; theirs / ours {theirs / ours_s:.2f}"
        )
