"""Spends all the randomness: recipe and seed to every pair, fully determined, cut into shards.

Speakers go to splits by a keyed hash of (seed, corpus speaker), so that adding speakers or dimensions moves nobody; where a
small corpus leaves a split short of the recipe's minimum, the speakers whose hash lies nearest are moved to it. Speakers who
read the same text go to the same split.

Each cell has an endless, ordered row of candidates. A shard walks down the row until the cell is full.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from types import MappingProxyType

from builder.acoustics import curves
from builder.errors import CellUnfilled
from builder.keys import digest, rank_of, spoken_key
from builder.recipe import SPEECH_KINDS, SPLITS, DimensionRecipe, Recipe
from builder.records import Cell, PairPlan, ShardPlan, SourceSpec
from builder.synthesis import drawn

SYNTHESIS_BLOCK = 32
"""Synthetic sources are shuffled per cell in blocks of at least this many, so that cells share sources and analyses."""


@dataclass(frozen=True)
class Plan:
    """A whole build, fully determined.

    Parameters
    ----------
    recipe
        What it was planned from.
    split_of
        Speaker (or recording, where the corpus tells no speaker) -> split.
    shards
        In the order of recipe and splits.
    unreachable
        (dimension, kind, tier) that don't exist because the carrier can't span them.
    """

    recipe: Recipe
    split_of: Mapping[str, str]
    shards: tuple[ShardPlan, ...]
    unreachable: tuple[tuple[str, str, str], ...]

    @property
    def digest(self) -> str:
        """Of everything that decides the bytes, but for the code."""
        return digest([shard_digest(shard) for shard in self.shards], 32)


def shard_digest(shard: ShardPlan) -> str:
    """Digest of a shard's plan: of all that's in it, also of what is only written to rows."""
    parts = [
        shard.name,
        [[str(cell), count] for cell, count in shard.wanted],
        {kind: [asdict(spec) for spec in specs] for kind, specs in shard.pool.items()},
        [[*key, *values] for key, values in sorted(shard.spans.items())],
        dict(shard.movement),
        asdict(shard.margins),
        shard.seed,
        shard.sample_rate_hz,
        dict(shard.sex),
    ]
    return digest(parts, 32)


# -- splits -----------------------------------------------------------------------------------------------------------


def owner(source: SourceSpec) -> str:
    """Who must stay in one split: the speaker; where a corpus doesn't tell speakers, the recording."""
    return source.speaker_id or f"{source.parameters.get('corpus')}/{source.parameters.get('member', source.source_id)}"


def _groups(sources: tuple[SourceSpec, ...]) -> list[list[str]]:
    """Owners that must stay together: they say the same text, or their recordings are the same bytes; each group sorted."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    first_with: dict[tuple[str, str], str] = {}
    for source in sources:
        name = owner(source)
        root(name)
        said = source.parameters.get("said") or spoken_key(source.text or "")
        for key in (("said", said), ("file", source.parameters.get("sha256", ""))):
            if key[1]:
                low, high = sorted((root(name), root(first_with.setdefault(key, name))))
                parent[high] = low
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(parent):
        groups[root(name)].append(name)
    return [groups[key] for key in sorted(groups)]


def assign_splits(sources: tuple[SourceSpec, ...], recipe: Recipe) -> dict[str, str]:
    """Which split each speaker belongs to.

    Parameters
    ----------
    sources
        Real speech.
    recipe
        Shares, minimum speakers and cuts per split, seed.

    Raises
    ------
    CellUnfilled
        The corpus can't give every split its minimum.
    """
    if not sources:
        return {}
    n_cuts = Counter(owner(source) for source in sources)
    place = {tuple(group): int(rank_of("split", recipe.seed, group[0]), 16) / 16.0**16 for group in _groups(sources)}
    edges, edge = {}, 0.0
    for split in SPLITS:
        if split in recipe.splits:
            edges[split] = (edge, edge + recipe.splits[split].share)
            edge += recipe.splits[split].share
    members: dict[str, list[tuple[str, ...]]] = {
        split: sorted((g for g in place if low <= place[g] < high or (high >= 1.0 - 1e-9 and place[g] >= low)), key=place.__getitem__)
        for split, (low, high) in edges.items()
    }
    _fill_minimums(members, place, edges, n_cuts, recipe)
    return {speaker: split for split, groups in members.items() for group in groups for speaker in group}


def _has(groups: list[tuple[str, ...]], n_cuts: Mapping[str, int]) -> tuple[int, int]:
    speakers = [speaker for group in groups for speaker in group]
    return len(speakers), sum(n_cuts[speaker] for speaker in speakers)


def _fill_minimums(
    members: dict[str, list[tuple[str, ...]]],
    place: Mapping[tuple[str, ...], float],
    edges: Mapping[str, tuple[float, float]],
    n_cuts: Mapping[str, int],
    recipe: Recipe,
) -> None:
    """Move the nearest groups to splits that are short, from splits that can spare them."""

    def short(split: str, without: tuple[str, ...] | None = None) -> bool:
        speakers, cuts = _has([group for group in members[split] if group != without], n_cuts)
        return speakers < recipe.splits[split].min_speakers or cuts < recipe.splits[split].min_cuts

    for split, (low, high) in edges.items():
        while short(split):
            spare = [
                (min(abs(place[group] - low), abs(place[group] - high)), group, other)
                for other in members
                if other != split
                for group in members[other]
                if not short(other, without=group)
            ]
            if not spare:
                needs = ", ".join(f"{name}: {rule.min_speakers} speakers and {rule.min_cuts} cuts" for name, rule in recipe.splits.items())
                speakers, cuts = _has([group for groups in members.values() for group in groups], n_cuts)
                raise CellUnfilled(
                    f"the corpus has {speakers} speakers with {cuts} cuts of speech, too few for the splits ({needs}); "
                    "lower min_speakers or min_cuts, or use a larger corpus"
                )
            _, group, other = min(spare)
            members[other].remove(group)
            members[split].append(group)


# -- shards and candidates --------------------------------------------------------------------------------------------


def make(recipe: Recipe, real: Mapping[str, tuple[SourceSpec, ...]], sex: Mapping[str, str | None] = MappingProxyType({})) -> Plan:
    """The plan of a whole build.

    Parameters
    ----------
    recipe
        Checked.
    real
        Kind -> real sources (`speech`, `syllables`).
    sex
        Speaker -> f or m, where known.
    """
    split_of = assign_splits(tuple(real.get("speech", ())), recipe)
    shards: list[ShardPlan] = []
    unreachable = []
    for part in recipe.dimensions:
        for rule in part.sources:
            unreachable += [(part.dimension, rule.kind, tier) for tier in part.tiers if tier not in part.tiers_on(rule)]
        for split in SPLITS:
            if split in recipe.splits:
                shards += _shards_of(recipe, part, split, _cells(part, split), real, split_of, sex)
                shards += _shards_of(recipe, part, split, _control_cells(part, split), real, split_of, sex)
    return Plan(recipe, split_of, tuple(shards), tuple(unreachable))


def _cells(part: DimensionRecipe, split: str) -> list[tuple[Cell, int]]:
    """Cells of a dimension in a split, with their pairs."""
    return [
        (Cell(part.dimension, tier, curve, rule.kind, split), part.pairs(rule, split))
        for rule in part.sources
        for tier in part.tiers_on(rule)
        for curve in part.curves
        if part.pairs(rule, split) > 0
    ]


def _control_cells(part: DimensionRecipe, split: str) -> list[tuple[Cell, int]]:
    """Cells of flat clips of a dimension in a split, with their clips."""
    counts: Mapping[str, int] = part.controls_per_kind  # type: ignore[assignment]
    count = counts.get(split, 0)
    return [(Cell(part.dimension, "control", "flat", rule.kind, split), count) for rule in part.sources if count > 0]


def _shards_of(
    recipe: Recipe,
    part: DimensionRecipe,
    split: str,
    cells: list[tuple[Cell, int]],
    real: Mapping[str, tuple[SourceSpec, ...]],
    split_of: Mapping[str, str],
    sex: Mapping[str, str | None],
) -> list[ShardPlan]:
    total = sum(count for _, count in cells)
    if total == 0:
        return []
    n_shards = -(-total // part.max_pairs_per_shard)
    spans = {(cell.tier, cell.curve, cell.kind): _span(part, cell) for cell, _ in cells}
    pools = {rule.kind: _pool(real, rule.kind, split, split_of) for rule in part.sources if rule.kind in SPEECH_KINDS}
    speakers = sorted({owner(spec) for specs in pools.values() for spec in specs})
    known = {speaker: told for speaker in speakers if (told := sex.get(speaker))}
    return [
        ShardPlan(
            dimension=part.dimension,
            split=split,
            index=index,
            count=n_shards,
            wanted=wanted,
            pool={kind: specs[index::n_shards] for kind, specs in pools.items()},
            spans=spans,
            movement={rule.kind: rule.movement for rule in part.sources},
            margins=part.as_margins(split),
            seed=recipe.seed,
            sample_rate_hz=recipe.sample_rate_hz,
            controls=cells[0][0].is_control,
            sex=known,
        )
        for index, wanted in enumerate(_dealt(cells, n_shards))
    ]


def _pool(real: Mapping[str, tuple[SourceSpec, ...]], kind: str, split: str, split_of: Mapping[str, str]) -> tuple[SourceSpec, ...]:
    """Real sources of a split, in an order that's the same whatever order they came in."""
    mine = [spec for spec in real.get(kind, ()) if split_of.get(owner(spec)) == split]
    return tuple(sorted(mine, key=lambda spec: rank_of("shard", spec.source_id)))


def _dealt(cells: list[tuple[Cell, int]], n_shards: int) -> list[tuple[tuple[Cell, int], ...]]:
    """Each cell's count dealt out evenly; what doesn't divide goes round, so that shards differ by one pair at most."""
    hands: list[list[tuple[Cell, int]]] = [[] for _ in range(n_shards)]
    turn = 0
    for cell, count in cells:
        rest = count % n_shards
        extra = {(turn + step) % n_shards for step in range(rest)}
        turn += rest
        for index, hand in enumerate(hands):
            share = count // n_shards + (index in extra)
            if share:
                hand.append((cell, share))
    return [tuple(hand) for hand in hands]


def _span(part: DimensionRecipe, cell: Cell) -> tuple[float, float, float]:
    """Span, planned contrast and J of a cell; a control's span is 0."""
    jnd = round(part.spec.jnd.on(cell.kind), 6)
    if cell.is_control:
        return 0.0, 0.0, jnd
    span = part.span(cell.kind, cell.tier, cell.curve)
    return span, round(span * curves.end_to_start(cell.curve), 6), jnd


def shortages(planned: Plan) -> list[tuple[str, str, int, int]]:
    """What a corpus is too small for: a source serves each cell once, so a cell needs as many sources as pairs, and some to spare.

    Returns
    -------
    list
        "dimension split", kind, pairs (or controls) of its largest cell, sources.
    """
    wanted: Counter[tuple[str, str, Cell]] = Counter()
    there: Counter[tuple[str, str, bool]] = Counter()
    for shard in planned.shards:
        name = f"{shard.dimension} {shard.split}"
        for kind, specs in shard.pool.items():
            there[name, kind, shard.controls] += len(specs)
        for cell, count in shard.wanted:
            wanted[name, cell.kind, cell] += count
    largest: Counter[tuple[str, str, bool]] = Counter()
    for (name, kind, cell), count in wanted.items():
        largest[name, kind, cell.is_control] = max(largest[name, kind, cell.is_control], count)
    return [(key[0], key[1], largest[key], there[key]) for key in there if largest[key] > there[key]]


def candidates(shard: ShardPlan, cell: Cell) -> Iterator[PairPlan]:
    """Pairs that may fill a cell, in order; ends when a real corpus is used up, never for synthesis."""
    span, contrast, jnd = shard.spans[cell.tier, cell.curve, cell.kind]
    sources = _real(shard, cell) if cell.kind in SPEECH_KINDS else _synthetic(shard, cell)
    for source in sources:
        yield PairPlan(
            dimension=cell.dimension,
            tier=cell.tier,
            curve=cell.curve,
            split=cell.split,
            span=span,
            planned_contrast=contrast,
            jnd=jnd,
            source=source,
            movement=shard.movement[cell.kind],
            sample_rate_hz=shard.sample_rate_hz,
        )


def _real(shard: ShardPlan, cell: Cell) -> Iterator[SourceSpec]:
    """Each source once, sexes taking turns as long as each lasts; speakers of whom it isn't known take turns as a third.

    All orders are shuffled for the cell.
    """
    by_sex: dict[str, list[SourceSpec]] = defaultdict(list)
    for spec in shard.pool[cell.kind]:
        by_sex[shard.sex.get(owner(spec), "")].append(spec)
    sexes = sorted(by_sex, key=lambda sex: rank_of(shard.seed, str(cell), "sex", sex))
    yield from _in_turns([_speakers_in_turns(shard, cell, by_sex[sex]) for sex in sexes])


def _speakers_in_turns(shard: ShardPlan, cell: Cell, specs: Iterable[SourceSpec]) -> Iterator[SourceSpec]:
    """Each source once, speakers taking turns."""
    by_speaker: dict[str, list[SourceSpec]] = defaultdict(list)
    for spec in sorted(specs, key=lambda spec: rank_of(shard.seed, str(cell), spec.source_id)):
        by_speaker[owner(spec)].append(spec)
    speakers = sorted(by_speaker, key=lambda speaker: rank_of(shard.seed, str(cell), "speaker", speaker))
    yield from _in_turns([by_speaker[speaker] for speaker in speakers])


def _in_turns(rows: Sequence[Iterable[SourceSpec]]) -> Iterator[SourceSpec]:
    """The first of each row, then the second of each that has one, and so on."""
    for turn in zip_longest(*rows):
        yield from (spec for spec in turn if spec is not None)


def _synthetic(shard: ShardPlan, cell: Cell) -> Iterator[SourceSpec]:
    """Numbers of this shard's own synthetic sources, shuffled for the cell block by block."""
    largest = max((count for other, count in shard.wanted if other.kind == cell.kind), default=1)
    size = max(SYNTHESIS_BLOCK, 2 * largest)
    block = 0
    while True:
        numbers = range(block * size, (block + 1) * size)
        for number in sorted(numbers, key=lambda number: rank_of(shard.seed, str(cell), number)):
            yield drawn(cell.kind, cell.split, number * shard.count + shard.index, shard.seed)
        block += 1
