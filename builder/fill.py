"""Fills a shard's cells: candidates through render, measure and label until each cell has its pairs.

A pair is accepted only if both its clips carry their planned label and hold still what they must; else it's rejected whole,
under one counted reason, and the cell's next candidate is tried. So tried = published + rejected, in every cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from builder import imposed, label, measure, plan, render, sources
from builder.acoustics import statistics, voice
from builder.corpora import Corpus
from builder.dimensions import BY_NAME, MEASURES, Dimension
from builder.errors import CellUnfilled, Refused
from builder.kept import Kept
from builder.recipe import SpeechRule
from builder.records import Cell, Margins, PairPlan, Reason, ShardPlan, Source
from builder.rows import Clip, as_json, row_of
from builder.words import counted, reaching

SLOWEST_HELD = "pitch"
"""Of what is held, asked last: F0 costs more than all else together."""
MAX_TRIES_PER_PAIR = 60
"""Synthesis never runs out of candidates: a cell that needs more tries than this per pair is given up."""

KEPT_EXAMPLES = 3
KEPT_BYTES = 200 * 1024**2
"""Of sources that are kept with their analyses and shams for the next conditions."""


@dataclass
class CellReport:
    """What happened in one cell."""

    wanted: int
    tried: int = 0
    published: int = 0
    witness_undecided: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Context:
    """What a worker needs beside a shard's plan: where the corpora lie, how they're read, and what the survey found in them.

    Parameters
    ----------
    bandwidth_hz
        "<corpus>/<member>" -> how far up a recording reaches.
    """

    corpora: Mapping[str, Corpus]
    speech: SpeechRule
    bandwidth_hz: Mapping[str, float] = field(default_factory=dict)


class _Rejected(Exception):
    """A pair fails a rule; carries the counted reason and a line for people."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


# -- one clip ---------------------------------------------------------------------------------------------------------


class _Trial:
    """One clip of a pair before the rules: what is known of it so far. The rules are asked in the order in which they stand here.

    Each raises `_Rejected` where it fails, and `render` what `render.clip` raises.
    """

    def __init__(self, pair: PairPlan, source: Source, sign: int, margins: Margins) -> None:
        self.pair, self.source, self.sign, self.margins = pair, source, sign, margins
        self.dimension = BY_NAME[pair.dimension]

    def render(self) -> None:
        """Make the clip and its sham."""
        self.flat = render.sham(self.pair, self.source)
        self.sound = render.clip(self.pair, self.source, self.sign)
        asked = render.planned(self.pair, self.source, self.sign)
        self.seen_at = asked.seen_at
        self.to_sham_s = _to_sham(self.dimension, asked.at, self.sound.duration_s)

    def hear(self) -> None:
        """The clip alone says what was planned."""
        planned = self.sign * self.pair.planned_contrast
        self.contour = measure.measure(self.sound, self.dimension)
        self.heard = label.hear(self.contour, self.source.start_s, self.source.end_s)
        failed = label.judge_heard(self.heard, planned, self.pair.jnd, self.margins)
        self.basis = self.dimension.basis if failed is None else "difference"
        against = failed in (Reason.CONTRADICTED, Reason.UNMEASURABLE) or self.sign * self.heard.contrast <= 0.0
        if failed is not None and (against or self.basis not in self.margins.bases):
            raise _Rejected(failed.value, f"planned {planned:+.3f}, heard {self.heard.contrast:+.3f} {self.dimension.unit}")

    def compare(self) -> None:
        """The clip less its sham follows the planned curve."""
        sham = measure.measure(self.flat, self.dimension)
        change = statistics.difference(self.contour, sham, self.to_sham_s)
        planned_seen = self.seen_at(change.time_s, self.dimension.window_s)
        failed, self.gain, self.r_squared = label.judge_difference(change, planned_seen, self.margins)
        if failed is not None:
            raise _Rejected(failed.value, f"gain {self.gain:.2f}, R-squared {self.r_squared:.2f}")
        self.beside = statistics.at_times(sham, self.contour.time_s, self.to_sham_s)

    def hold(self) -> None:
        """Held dimensions stay where the sham has them, within their limits in J; those that cost least are asked first."""
        found: dict[str, float | None] = {}
        for name, (other, how) in sorted(MEASURES.items(), key=lambda item: item[0] == SLOWEST_HELD):
            if other.name not in self.dimension.holds or name in self.dimension.linked:
                continue
            clip, sham = (measure.held(of, name) for of in (self.sound, self.flat))
            jnd = other.jnd.on(self.pair.source.kind)
            leak = label.leak_jnd(clip, sham, self.to_sham_s, self.source.start_s, self.source.end_s, jnd, how.factor_per_ten)
            found[name] = leak
            limit = self.margins.max_leak_jnd if name == other.name else how.limit_jnd
            if leak is not None and abs(leak) > limit:
                raise _Rejected(f"{Reason.LEAK.value}_{name}", f"{name} moved by {leak:+.2f} J, at most {limit:g} J is allowed")
        self.leaks = found

    def witness(self) -> None:
        """The independent measure doesn't contradict."""
        start_s, end_s = self.source.start_s, self.source.end_s
        clip, sham = (measure.witness(of, self.dimension) for of in (self.sound, self.flat))
        failed, self.verdict = label.judge_witness(clip, sham, self.sign, start_s, end_s, self.margins)
        if failed is not None:
            raise _Rejected(failed.value, f"planned {'up' if self.sign > 0 else 'down'}, the witness {self.verdict}")
        if self.basis == "parts" and self.verdict == "undecided":
            raise _Rejected(Reason.WITNESS_UNDECIDED.value, "the parts say so, but nothing is heard in the clip alone")
        self.witnessed = label.witness_contrast(clip, start_s, end_s)

    def clip(self) -> Clip:
        """The clip, after all rules."""
        return Clip(
            self.sound, self.sign, self.heard, self.contour, self.beside, self.gain, self.r_squared, self.verdict, self.witnessed,
            self.leaks, self.basis, self.source.start_s, self.source.end_s,
        )  # fmt: skip


RULES = (_Trial.render, _Trial.hear, _Trial.compare, _Trial.hold, _Trial.witness)


def judge(pair: PairPlan, source: Source, margins: Margins, signs: tuple[int, ...] = (1, -1)) -> tuple[Clip, ...]:
    """Put the clips of a pair to every rule, cheap ones first: no clip is measured further once a rule fails on its twin.

    Returns
    -------
    tuple
        Of `Clip`, in the order of `signs`: rising first.

    Raises
    ------
    Refused
        The sweep can't be made.
    _Rejected
        A rule fails.
    """
    trials = [_Trial(pair, source, sign, margins) for sign in signs]
    for rule in RULES:
        for trial in trials:
            rule(trial)
    return tuple(trial.clip() for trial in trials)


def _to_sham(dimension: Dimension, log_rate: Any, duration_s: float) -> Callable[[Any], Any] | None:
    """Where in the sham each moment of a clip comes from, if the sweep moves moments."""
    if not dimension.warps_time:
        return None
    clip_s, sham_s = voice.warp(log_rate, duration_s)
    return lambda time_s: np.interp(time_s, clip_s, sham_s)


def judge_control(pair: PairPlan, source: Source, margins: Margins) -> Clip:
    """The flat clip of a source; raises as `judge`."""
    dimension = BY_NAME[pair.dimension]
    sound = render.clip(pair, source, 0)
    contour = measure.measure(sound, dimension)
    heard = label.hear(contour, source.start_s, source.end_s)
    failed = label.judge_flat(heard, pair.jnd, margins)
    if failed is not None:
        raise _Rejected(failed.value, f"a control is heard to change by {heard.contrast:+.3f} {dimension.unit}")
    seen = label.witness_contrast(measure.witness(sound, dimension), source.start_s, source.end_s)
    return Clip(sound, 0, heard, contour, contour.value, None, None, None, seen, {}, dimension.basis, source.start_s, source.end_s)


def _check_band(pair: PairPlan, context: Context) -> None:
    """Refuse a recording that doesn't reach up to what the dimension acts on, whatever the sweep's size; before it's read."""
    dimension, where = BY_NAME[pair.dimension], pair.source.parameters
    reaches_hz = context.bandwidth_hz.get(f"{where.get('corpus')}/{where.get('member')}", float("inf"))
    if reaches_hz < dimension.band.needs_hz:
        raise Refused(
            Reason.NARROW_BAND,
            f"the recording {reaching(reaches_hz)}, {dimension.name} needs {dimension.band.needs_hz:.0f} Hz: {dimension.band.reason}",
        )


# -- one shard --------------------------------------------------------------------------------------------------------


def _no_tick(*_: int) -> None:
    """Progress that nobody looks at."""


class Filler:
    """Fills one shard; keeps the sources that were used last, with their analyses and shams, for their other conditions."""

    def __init__(self, shard: ShardPlan, context: Context, tick: Callable[[int, int], object] = _no_tick) -> None:
        self.shard = shard
        self.context = context
        self.tick = tick
        self.reports = {cell: CellReport(count) for cell, count in shard.wanted}
        self.examples: dict[str, list[dict[str, Any]]] = {}
        self.rows: list[dict[str, Any]] = []
        self.imposed: list[dict[str, Any]] = []
        self._sources = Kept[Source](KEPT_BYTES)
        self._refused: dict[str, tuple[Reason, str]] = {}
        self._seen: set[str] = set()

    def run(self) -> None:
        """Fill every cell.

        Raises
        ------
        CellUnfilled
            A cell ran out of candidates.
        """
        for cell, count in self.shard.wanted:
            self._fill(cell, count)
        self.rows.sort(key=lambda row: str(row["id"]))

    def _fill(self, cell: Cell, count: int) -> None:
        report = self.reports[cell]
        for pair in plan.candidates(self.shard, cell):
            if report.published == count or report.tried >= MAX_TRIES_PER_PAIR * count:
                break
            report.tried += 1
            try:
                self._impose(pair, report.tried)
                clips = self._judged(pair)
                rows = [row_of(pair, clip, increase_first=self._increase_first(cell)) for clip in clips]
                if {row["audio_sha256"] for row in rows} & self._seen:
                    raise _Rejected(Reason.DUPLICATE.value, "the same samples were published before")
            except Refused as refusal:
                self._reject(report, pair, refusal.reason.value, refusal.detail)
                continue
            except _Rejected as rejection:
                self._reject(report, pair, rejection.reason, rejection.detail)
                continue
            self._seen |= {row["audio_sha256"] for row in rows}
            self.rows += rows
            report.published += 1
            report.witness_undecided += sum(clip.witness == "undecided" for clip in clips)
            self.tick(len(rows), 0)
        if report.published < count:
            reasons = ", ".join(f"{reason} {n}" for reason, n in report.rejected.most_common()) or "no source at all"
            raise CellUnfilled(
                f"cell {cell} has {report.published} of {count} after {counted(report.tried, 'candidate')} ({reasons}); "
                "use a larger corpus, ask for fewer pairs_per_cell, leave the tier out for this kind, or take another seed"
            )

    def _impose(self, pair: PairPlan, number: int) -> None:
        """Ask of a cell's first candidates what an imposed label would have been worth; the first shard of a split is enough."""
        asked = self.shard.index == 0 and pair.source.kind == imposed.KIND and not pair.cell.is_control
        if asked and number <= imposed.PER_CELL:
            self.imposed.append(imposed.outcome(pair, self._source(pair), self.shard.margins))

    def _increase_first(self, cell: Cell) -> bool:
        """Order of the choices of a cell's next pair: takes turns within each kind and curve, which begin like a chequerboard."""
        kinds = sorted({other.kind for other in self.reports})
        curves = sorted({other.curve for other in self.reports})
        before = sum(report.published for other, report in self.reports.items() if (other.kind, other.curve) == (cell.kind, cell.curve))
        return (kinds.index(cell.kind) + curves.index(cell.curve) + before) % 2 == 0

    def _judged(self, pair: PairPlan) -> tuple[Clip, ...]:
        _check_band(pair, self.context)
        source = self._source(pair)
        if pair.cell.is_control:
            return (judge_control(pair, source, self.shard.margins),)
        return judge(pair, source, self.shard.margins)

    def _source(self, pair: PairPlan) -> Source:
        key = pair.source.source_id
        if key in self._refused:
            raise Refused(*self._refused[key])
        make = partial(sources.realise, pair.source, pair.sample_rate_hz, self.context.corpora, self.context.speech)
        try:
            return self._sources.get(key, make)
        except Refused as refusal:
            self._refused[key] = refusal.reason, refusal.detail  # the exception would keep its frames, and all that they hold
            raise

    def _reject(self, report: CellReport, pair: PairPlan, reason: str, detail: str) -> None:
        report.rejected[reason] += 1
        self.tick(0, 1 if pair.cell.is_control else 2)
        kept = self.examples.setdefault(reason, [])
        if len(kept) < KEPT_EXAMPLES:
            kept.append({"plan": as_json(pair), "detail": detail})

    def report(self) -> dict[str, Any]:
        """Counts by cell and examples of rejections, JSON-able."""
        return {
            "cells": [
                {**asdict(cell), **asdict(report), "rejected": dict(sorted(report.rejected.items()))}
                for cell, report in self.reports.items()
            ],
            "imposed": self.imposed,
            "rejected_examples": {reason: self.examples[reason] for reason in sorted(self.examples)},
        }
