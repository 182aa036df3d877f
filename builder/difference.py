"""What a plan would change against a dataset that was built: who and what would be in another split, and what was published before.

A plan doesn't say yet which candidates will be accepted, so a split is compared by what it may use: the real speakers, recordings,
texts and cuts in its pools, and the pairs that these cells could make again. Synthesis under another seed is another sound.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from builder import places, plan
from builder.layout import read_manifest, read_rows
from builder.plan import Plan
from builder.recipe import SPEECH_KINDS, SPLITS
from builder.records import CONTROLS, Cell, ShardPlan, SourceSpec
from builder.splits import keys_of, owner

NAMED = 8
"""Speakers that are named in a line, at most."""

WHAT = ("speaker", "recording", "text", "cut", "pair")
Held = dict[str, dict[Any, set[str]]]
"""What -> each one -> the splits that have it."""


@dataclass(frozen=True)
class Difference:
    """A plan against a dataset.

    Parameters
    ----------
    before, now
        Releases.
    same_recipe
        Whether the recipes differ in nothing but the seed.
    cells
        "as before", "new", "gone", "another count" -> cells.
    n_before, n_now
        What -> how many there were, how many there may be; `n_before` has only speakers where rows weren't read.
    moves
        What -> (split before, split now) -> how many; those in both only.
    movers
        Speakers that change split: (speaker, split before, split now).
    whole
        Whether rows were read; a manifest alone tells speakers and cells.
    """

    before: str
    now: str
    same_recipe: bool
    cells: Mapping[str, int]
    n_before: Mapping[str, int]
    n_now: Mapping[str, int]
    moves: Mapping[str, Mapping[tuple[str, str], int]]
    movers: tuple[tuple[str, str, str], ...]
    whole: bool = field(default=True)

    def contaminated(self, old: str = "train", new: str = "test") -> dict[str, int]:
        """What -> how many of an old split's the new one may use."""
        return {what: moves[old, new] for what, moves in self.moves.items() if moves.get((old, new))}


def between(planned: Plan, path: Path) -> Difference:
    """Compare a plan with a dataset's folder, or with its manifest alone.

    Raises
    ------
    NotFound
        There's no dataset.
    DatasetInvalid
        Its manifest or shards can't be read.
    """
    manifest = read_manifest(path)
    whole = places.is_folder(path) and places.is_folder(path / "data")
    used = planned.recipe
    before: Held = {"speaker": {name: {split} for name, split in manifest.get("sources", {}).get("speakers", {}).items()}}
    if whole:
        before |= _published(path, manifest)
    now = _usable(planned)
    if whole:
        now["pair"] = _again(planned, before["pair"], same_seed=manifest.get("seed") == used.seed_name)
    moves = {what: _moves(before[what], now[what]) for what in before}
    movers = [
        (name, *sorted(before["speaker"][name]), *sorted(now["speaker"][name]))
        for name in sorted(before["speaker"].keys() & now["speaker"].keys())
        if before["speaker"][name] != now["speaker"][name]
    ]
    return Difference(
        before=str(manifest.get("release")),
        now=used.release,
        same_recipe=manifest.get("recipe_sha256") == used.digest,
        cells=_cells(planned, manifest),
        n_before={what: len(held) for what, held in before.items()},
        n_now={what: len(held) for what, held in now.items()},
        moves=moves,
        movers=tuple(movers),
        whole=whole,
    )


def _cells(planned: Plan, manifest: Mapping[str, Any]) -> dict[str, int]:
    """Cells by what becomes of them."""
    was: Counter[Cell] = Counter()
    for cell in manifest["cells"]:
        was[Cell(*(cell[part] for part in ("dimension", "tier", "curve", "kind", "split")))] += cell["wanted"]
    now: Counter[Cell] = Counter()
    for shard in planned.shards:
        for planned_cell, count in shard.wanted:
            now[planned_cell] += count
    other = [cell for cell in was | now if was[cell] != now[cell]]
    found = Counter("gone" if cell not in now else "new" if cell not in was else "another count" for cell in other)
    return {"as before": len(was | now) - found.total(), **{what: found[what] for what in ("new", "gone", "another count")}}


def _held(held: Held, spec: SourceSpec, split: str) -> None:
    """Note who and what a real source is of."""
    held["speaker"][owner(spec)].add(split)
    held["cut"][spec.kind, spec.source_id].add(split)
    for what, key in keys_of(spec):
        held[what][key].add(split)


def _empty() -> Held:
    return {what: defaultdict(set) for what in WHAT}


def _published(root: Path, manifest: Mapping[str, Any]) -> Held:
    """What a dataset's rows are made of, by split."""
    held = _empty()
    for item in manifest["shards"]:
        for row in read_rows(root, item["shard"], ["plan"]):
            pair = json.loads(row["plan"])["pair"]
            spec = SourceSpec(**pair["source"])
            if spec.kind in SPEECH_KINDS:
                _held(held, spec, pair["split"])
            if not item["shard"].startswith(f"{CONTROLS}/"):
                held["pair"][_pair_key(pair, pair["tier"], pair["curve"], spec)].add(pair["split"])
    return held


def _pair_key(pair: Mapping[str, Any], tier: str, curve: str, spec: SourceSpec) -> tuple[Any, ...]:
    """All that decides a pair's two clips, whatever its split."""
    numbers = tuple(pair[name] for name in ("span", "planned_contrast", "jnd", "movement", "sample_rate_hz"))
    return pair["dimension"], tier, curve, spec.kind, spec.source_id, spec.digest, *numbers


def _usable(planned: Plan) -> Held:
    """What the plan's splits may use, in whichever dimension."""
    held = _empty()
    for shard in planned.shards:
        for specs in shard.pool.values():
            for spec in specs:
                if shard.split not in held["cut"].get((spec.kind, spec.source_id), ()):
                    _held(held, spec, shard.split)
    return held


def _again(planned: Plan, published: Mapping[Any, set[str]], *, same_seed: bool) -> dict[Any, set[str]]:
    """Which of the published pairs the plan's cells may make again, with their splits."""
    asked_for = {(dimension, source_id) for dimension, _, _, _, source_id, *_ in published}
    numbers: dict[tuple[str, ...], tuple[float, ...]] = {}
    splits: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for shard in planned.shards:
        if shard.controls:
            continue
        for spec in chain(*shard.pool.values(), _drawn(shard) if same_seed else ()):
            if (shard.dimension, spec.source_id) in asked_for:
                splits[shard.dimension, spec.kind, spec.source_id, spec.digest].add(shard.split)
        for cell, _ in shard.wanted:
            span = shard.spans[cell.tier, cell.curve, cell.kind]
            numbers[cell.dimension, cell.tier, cell.curve, cell.kind, cell.split] = (*span, shard.movement[cell.kind], shard.sample_rate_hz)
    found: dict[Any, set[str]] = {}
    for key in published:
        dimension, tier, curve, kind, source_id, spec_digest, *asked = key
        where = splits.get((dimension, kind, source_id, spec_digest), set())
        again = {split for split in where if numbers.get((dimension, tier, curve, kind, split)) == tuple(asked)}
        if again:
            found[key] = again
    return found


def _drawn(shard: ShardPlan) -> Iterator[SourceSpec]:
    """The synthetic sources that a shard's cells try first, a block of each kind."""
    by_kind = {cell.kind: cell for cell, _ in shard.wanted if cell.kind not in SPEECH_KINDS}
    for kind, cell in by_kind.items():
        size = max(plan.SYNTHESIS_BLOCK, 2 * max(count for other, count in shard.wanted if other.kind == kind))
        yield from (pair.source for pair in islice(plan.candidates(shard, cell), size))


def _moves(before: Mapping[Any, set[str]], now: Mapping[Any, set[str]]) -> dict[tuple[str, str], int]:
    """(split before, split now) -> how many are in both."""
    found: Counter[tuple[str, str]] = Counter()
    for key in before.keys() & now.keys():
        found.update((old, new) for old in before[key] for new in now[key])
    return {(old, new): found[old, new] for old in SPLITS for new in SPLITS if found[old, new]}


def text(found: Difference) -> str:
    """The difference for people."""
    return "\n".join(_lines(found))


def _lines(found: Difference) -> Iterator[str]:
    yield f"against {found.before}: now {found.now}; {'the same recipe' if found.same_recipe else 'another recipe'}"
    yield "cells: " + ", ".join(f"{count} {what}" for what, count in found.cells.items())
    if not found.whole:
        yield "only the manifest is there: recordings, texts, cuts and pairs can't be compared"
    for what, moves in found.moves.items():
        kept = sum(count for (old, new), count in moves.items() if old == new)
        n_both = sum(moves.values())
        changed = ", ".join(f"{old} -> {new} {count}" for (old, new), count in moves.items() if old != new)
        many = f"{found.n_before[what]} before, {found.n_now[what]} usable now" if what != "pair" else f"{found.n_before[what]} before"
        yield f"{what + 's':<11}{many}; {n_both} in both: {kept} stay{'; ' + changed if changed else ''}"
    names = ", ".join(f"{name} {old} -> {new}" for name, old, new in found.movers[:NAMED])
    if names:
        yield f"speakers that change split: {names}" + (f" and {len(found.movers) - NAMED} more" if len(found.movers) > NAMED else "")
    for old in ("train", "validation"):
        bad = ", ".join(f"{what}s {count}" for what, count in found.contaminated(old).items())
        yield f"of the old {old} split the new test split may use: {bad or 'nothing'}"
