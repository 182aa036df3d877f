"""Spends all the randomness: recipe and seed to every pair, fully determined, cut into shards.

Who goes to which split is decided in `splits`. Each cell has an endless, ordered row of candidates. A shard walks down the row
until the cell is full.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from types import MappingProxyType

from builder import carrying, splits
from builder.acoustics import curves
from builder.errors import CellUnfilled
from builder.keys import digest, rank_of
from builder.recipe import SPEECH_KINDS, SPLITS, DimensionRecipe, Recipe
from builder.records import Cell, PairPlan, Reason, ShardPlan, SourceSpec
from builder.splits import Splits, owner
from builder.synthesis import drawn
from builder.words import counted

Pools = Mapping[tuple[str, str], tuple[SourceSpec, ...]]
"""(kind, split) -> real sources, in an order that's the same whatever order they came in."""

MAX_LINES = 12
"""Shortages that are told one by one."""

SYNTHESIS_BLOCK = 32
"""Synthetic sources are shuffled per cell in blocks of at least this many, so that cells share sources and analyses."""


@dataclass(frozen=True)
class Shortage:
    """The cells of a dimension, kind and split with too few sources that can carry them, as far as the survey tells.

    Parameters
    ----------
    shard, cell
        The one that lacks most, and where.
    n_cells
        How many there are, counted in each shard.
    wanted
        Pairs, or controls, to fill.
    there, of
        Sources that can carry it, and all of its kind in the shard.
    enough
        How many there should be, so that the cell doesn't run out by chance.
    words
        What a source that can carry it does; empty where any will do.
    """

    shard: str
    cell: Cell
    n_cells: int
    wanted: int
    there: int
    of: int
    enough: int
    words: str

    @property
    def fatal(self) -> bool:
        """Whether the cell can't be filled for certain, rather than only perhaps."""
        return self.there < self.wanted

    def __str__(self) -> str:
        others = f" (and {counted(self.n_cells - 1, 'more cell')} like it)" if self.n_cells > 1 else ""
        has = f"{self.there} of {self.of} {self.cell.kind} {self.words}" if self.words else f"{self.there} {self.cell.kind}"
        return f"{self.cell} in {self.shard}: {has}, {self.wanted} at least are needed and {self.enough} to be safe{others}"


def check_filled(planned: Plan) -> None:
    """Refuse a plan with cells that can't be filled, before anything is rendered.

    Raises
    ------
    CellUnfilled
        Names the cells, what each lacks, and what to change.
    """
    short = [item for item in planned.shortages if item.fatal]
    if short:
        more = [f"and cells of {len(short) - MAX_LINES} more dimensions, kinds and splits"] if len(short) > MAX_LINES else []
        lines = "".join(f"\n  {line}" for line in [*short[:MAX_LINES], *more])
        raise CellUnfilled(
            f"the corpus can't fill these cells:{lines}\n"
            "Add recordings that can carry them, ask for fewer pairs_per_cell or clips in these splits, or leave the kind of source out."
        )


@dataclass(frozen=True)
class Plan:
    """A whole build, fully determined.

    Parameters
    ----------
    recipe
        What it was planned from.
    splits
        Who and what belongs to which.
    shards
        In the order of recipe and splits.
    unreachable
        (dimension, kind, tier) that don't exist because the carrier can't span them.
    refused
        Reason -> real sources of all kinds that no split may use.
    shortages
        Cells of shards that have fewer sources than they should.
    """

    recipe: Recipe
    splits: Splits
    shards: tuple[ShardPlan, ...]
    unreachable: tuple[tuple[str, str, str], ...]
    refused: Mapping[str, int]
    shortages: tuple[Shortage, ...]

    @property
    def split_of(self) -> Mapping[str, str]:
        """Speaker (or recording, where the corpus tells no speaker) -> split."""
        return self.splits.of_owner

    @property
    def digest(self) -> str:
        """Of everything that decides the bytes, but for the code."""
        return digest([shard_digest(shard) for shard in self.shards], 32)


def shard_digest(shard: ShardPlan) -> str:
    """Digest of a shard's plan: of all that's in it, also of what is only written to rows."""
    parts = [
        shard.name,
        [[str(cell), count] for cell, count in shard.wanted],
        {kind: digest("".join([spec.digest for spec in specs]), 32) for kind, specs in shard.pool.items()},
        [[*key, *values] for key, values in sorted(shard.spans.items())],
        dict(shard.movement),
        asdict(shard.margins),
        shard.seed,
        shard.sample_rate_hz,
        dict(shard.sex),
    ]
    return digest(parts, 32)


# -- shards and candidates --------------------------------------------------------------------------------------------


def make(recipe: Recipe, real: Mapping[str, tuple[SourceSpec, ...]], sex: Mapping[str, str | None] = MappingProxyType({})) -> Plan:
    """The plan of a whole build.

    Parameters
    ----------
    recipe
        Checked.
    real
        Kind -> real sources (`speech`, `syllables`, `vowels`).
    sex
        Speaker -> f or m, where known.
    """
    found = splits.assign(chain.from_iterable(real.values()), recipe)
    pools, refused = _pools(real, found)
    known: dict[str, dict[str, str]] = {split: {} for split in SPLITS}
    for speaker, where in sorted(found.of_owner.items()):
        if told := sex.get(speaker):
            known[where][speaker] = told
    shards: list[ShardPlan] = []
    unreachable = []
    for part in recipe.dimensions:
        for rule in part.sources:
            unreachable += [(part.dimension, rule.kind, tier) for tier in part.tiers if tier not in part.tiers_on(rule)]
        for split in SPLITS:
            if split in recipe.splits:
                shards += _shards_of(recipe, part, split, part.cells(split), pools, known[split])
                shards += _shards_of(recipe, part, split, part.control_cells(split), pools, known[split])
    return Plan(recipe, found, tuple(shards), tuple(unreachable), refused, tuple(_shortages(recipe, shards, pools)))


def _pools(real: Mapping[str, tuple[SourceSpec, ...]], found: Splits) -> tuple[Pools, dict[str, int]]:
    """Each split's real sources by kind, and how many no split may use."""
    pools: dict[tuple[str, str], list[SourceSpec]] = defaultdict(list)
    refused: Counter[str] = Counter()
    for kind, specs in real.items():
        for spec in specs:
            where = found.of(spec)
            if isinstance(where, Reason):
                refused[where.value] += 1
            else:
                pools[kind, where].append(spec)
    in_order = {key: tuple(sorted(specs, key=lambda spec: rank_of("shard", spec.source_id))) for key, specs in pools.items()}
    return in_order, dict(sorted(refused.items()))


def _shards_of(
    recipe: Recipe,
    part: DimensionRecipe,
    split: str,
    cells: list[tuple[Cell, int]],
    pools: Pools,
    sex: Mapping[str, str],
) -> list[ShardPlan]:
    total = sum(count for _, count in cells)
    if total == 0:
        return []
    n_shards = -(-total // part.max_pairs_per_shard)
    spans = {(cell.tier, cell.curve, cell.kind): _span(part, cell) for cell, _ in cells}
    mine = {rule.kind: pools.get((rule.kind, split), ()) for rule in part.sources if rule.kind in SPEECH_KINDS}
    return [
        ShardPlan(
            dimension=part.dimension,
            split=split,
            index=index,
            count=n_shards,
            wanted=wanted,
            pool={kind: specs[index::n_shards] for kind, specs in mine.items()},
            spans=spans,
            movement={rule.kind: rule.movement for rule in part.sources},
            margins=part.as_margins(split),
            seed=recipe.seed,
            sample_rate_hz=recipe.sample_rate_hz,
            controls=cells[0][0].is_control,
            sex=sex,
        )
        for index, wanted in enumerate(_dealt(cells, n_shards))
    ]


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


def _shortages(recipe: Recipe, shards: Iterable[ShardPlan], pools: Pools) -> Iterator[Shortage]:
    """Where a corpus is too small: a source serves each cell once, and not every source can carry every sweep."""
    facts = {key: carrying.facts_of(specs) for key, specs in pools.items()}
    parts = {part.dimension: part for part in recipe.dimensions}
    there: dict[tuple[str, str, int, int, carrying.Least], int] = {}
    found: dict[tuple[str, str, str, bool], list[Shortage]] = defaultdict(list)
    for shard in shards:
        for cell, count in shard.wanted:
            if cell.kind not in SPEECH_KINDS:
                continue
            asked = carrying.asked_of(parts[shard.dimension], cell, count)
            key = (cell.kind, cell.split, shard.index, shard.count, asked.least)
            if key not in there:
                mine = facts.get(key[:2], carrying.facts_of(()))[shard.index :: shard.count]
                there[key] = int(carrying.able(mine, asked.least).sum())
            if there[key] < asked.enough:
                words = carrying.words(parts[shard.dimension].spec, asked.span)
                short = Shortage(shard.name, cell, 1, count, there[key], len(shard.pool[cell.kind]), asked.enough, words)
                found[cell.dimension, cell.kind, cell.split, cell.is_control].append(short)
    for items in found.values():
        yield replace(min(items, key=lambda item: (item.there - item.wanted, item.there - item.enough)), n_cells=len(items))


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
    name = str(cell)
    block = 0
    while True:
        numbers = range(block * size, (block + 1) * size)
        for number in sorted(numbers, key=lambda number: rank_of(shard.seed, name, number)):
            yield drawn(cell.kind, cell.split, number * shard.count + shard.index, shard.seed)
        block += 1
