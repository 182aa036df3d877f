"""Who and what goes to which split: no speaker, no recording and no text is in two of them.

A speaker's split is a keyed hash of (seed, corpus, speaker) and nothing else, so that a new speaker, text or dimension moves
nobody. Speakers are never joined because they read the same words: in corpora where everybody reads the same passage that
would make one group of them all. Instead a text that speakers of several splits read is given to one of those splits, and
its recordings by speakers of the others are refused and counted (`text_in_other_split`). A recording with several speakers, or
the same file under two names, is treated alike (`recording_in_other_split`).

Which of the splits gets it is a keyed hash of the text, weighted by the splits' shares. Each split draws its own number, so a
reader who joins can bring a text to his split, but never move it between two others.

Where a small corpus leaves a split short of the recipe's minimum, or of sources that can carry one of its cells (see `carrying`), the
speakers whose hash lies nearest are moved to it, and if that isn't enough, texts, or two speakers change places; only then does a
place depend on who else is there.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from builder import carrying
from builder.errors import CellUnfilled
from builder.keys import rank_of, spoken_key
from builder.recipe import SPLITS, Recipe, SplitRule
from builder.records import Reason, SourceSpec
from builder.words import counted

MATTERS_MOST = ("test", "train", "validation")
"""Which splits a corpus of fewer speakers than splits is advised to have."""
DRAWS = 4
"""From how many hashes splits are looked for, where a corpus is small."""
ADVICE_STEPS = 20
"""By what part of the minimums a `splits:` block is made smaller until the corpus can fill it."""
SHARED = {"text": Reason.TEXT_IN_OTHER_SPLIT, "recording": Reason.RECORDING_IN_OTHER_SPLIT}
"""What must not be in two splits beside speakers, and the reason that refuses it."""

IntArray = NDArray[np.int64]
Key = tuple[str, str]
"""("text", digest of what is said) or ("recording", digest of the file)."""


def owner(source: SourceSpec) -> str:
    """Who must stay in one split: the speaker; where a corpus doesn't tell speakers, the recording."""
    return source.speaker_id or f"{source.parameters.get('corpus')}/{source.parameters.get('member', source.source_id)}"


def keys_of(source: SourceSpec) -> tuple[Key, ...]:
    """The text and the recording that a source is of, as far as they're known."""
    said = source.parameters.get("said") or spoken_key(source.text or "")
    sha256 = source.parameters.get("sha256", "")
    if said and sha256:
        return ("text", said), ("recording", sha256)
    return (("text", said),) if said else (("recording", sha256),) if sha256 else ()


@dataclass(frozen=True)
class Splits:
    """Where everything belongs.

    Parameters
    ----------
    of_owner
        Speaker (or recording, where the corpus tells no speaker) -> split.
    of_shared
        Text or recording that owners of several splits have -> the split that it was given to.
    """

    of_owner: Mapping[str, str]
    of_shared: Mapping[Key, str]

    def of(self, source: SourceSpec) -> str | Reason:
        """The split that may use a source; the reason, if none may.

        Raises
        ------
        KeyError
            The source's owner wasn't among those that the splits were made from.
        """
        split = self.of_owner[owner(source)]
        for key in keys_of(source) if self.of_shared else ():
            if self.of_shared.get(key, split) != split:
                return SHARED[key[0]]
        return split


def assign(sources: Iterable[SourceSpec], recipe: Recipe) -> Splits:
    """Which split each speaker, and each text and recording that several splits would have, belongs to.

    Parameters
    ----------
    sources
        Real sources of every kind; cuts of speech count for the minimums.
    recipe
        Shares, minimum speakers and cuts per split, seed; and the cells, each of which needs sources that can carry it.

    Raises
    ------
    CellUnfilled
        The corpus can't give every split its minimum; the message has a `splits:` block that it can.
    """
    specs = tuple(sources)
    if not specs:
        return Splits({}, {})
    table = _Table(specs, recipe)
    found = _with_minimums(table, _edges(recipe))
    if isinstance(found, Splits):
        return found
    raise CellUnfilled(_too_few(table, found) + _advice(specs, recipe))


def _edges(recipe: Recipe) -> dict[str, tuple[float, float]]:
    """Stretch of [0, 1) of each split."""
    edges, edge = {}, 0.0
    for split in SPLITS:
        if split in recipe.splits:
            edges[split] = (edge, edge + recipe.splits[split].share)
            edge += recipe.splits[split].share
    return edges


def _split_at(at: float, edges: Mapping[str, tuple[float, float]]) -> str:
    return next((split for split, (_, high) in edges.items() if at < high), list(edges)[-1])


def _unit(*key: object) -> float:
    """A number inside (0, 1) that depends on a key alone."""
    return (int(rank_of(*key), 16) + 0.5) / 16.0**16


@dataclass(frozen=True)
class _State:
    """Splits in the making: each owner's, and texts and recordings that were given to a split in spite of the bids."""

    of_owner: Mapping[str, str]
    given: Mapping[Key, str]


class _Table:
    """Who has which texts and recordings, and with how many sources that count for something: cuts of speech, and what a cell asks for."""

    def __init__(self, specs: Sequence[SourceSpec], recipe: Recipe) -> None:
        self.rules: Mapping[str, SplitRule] = {str(split): rule for split, rule in recipe.splits.items()}
        self._seed = recipe.seed
        corpora: dict[str, str] = {}
        for source in specs:
            name, corpus = owner(source), str(source.parameters.get("corpus"))
            corpora[name] = min(corpora.get(name, corpus), corpus)
        self._corpora = dict(sorted(corpora.items()))
        self.place = self.place_in(0)
        number = {name: index for index, name in enumerate(self.place)}
        rows: dict[tuple[str, tuple[Key, ...]], int] = {}
        self._row = np.array([rows.setdefault((owner(source), keys_of(source)), len(rows)) for source in specs], dtype=np.intp)
        self._owner = np.array([number[name] for name, _ in rows], dtype=np.intp)
        self._count(specs, recipe, len(rows))
        readers: dict[Key, set[str]] = defaultdict(set)
        for name, keys in rows:
            for key in keys:
                readers[key].add(name)
        self._readers = {key: names for key, names in readers.items() if len(names) > 1}
        shared = [(row, [key for key in keys if key in self._readers]) for (_, keys), row in rows.items()]
        self._shared_rows = [(row, keys) for row, keys in shared if keys]
        self._draws: dict[tuple[Key, str], float] = {}

    def place_in(self, draw: int) -> dict[str, float]:
        """Where each owner lies in [0, 1): by the hash in draw 0, by other hashes in the others."""
        others = (draw,) if draw else ()
        return {name: _unit("split", self._seed, corpus, name, *others) for name, corpus in self._corpora.items()}

    def _count(self, specs: Sequence[SourceSpec], recipe: Recipe, n_rows: int) -> None:
        """Sources by row and by what is asked of them, the first column all cuts of speech; and how many each split is to have."""
        kinds = np.array([source.kind for source in specs], dtype=np.str_)
        facts = carrying.facts_of(specs)
        columns, wanted, room = [kinds == "speech"], [], []
        for (kind, least), of_split in carrying.by_kind_and_least(recipe).items():
            columns.append((kinds == kind) & carrying.able(facts, least))
            wanted.append([of_split[split][0] for split in self.rules])
            room.append([of_split[split][1] for split in self.rules])
        self._counts = np.zeros((n_rows, len(columns)), dtype=np.int64)
        for index, column in enumerate(columns):
            np.add.at(self._counts[:, index], self._row[column], 1)
        cuts = [rule.min_cuts for rule in self.rules.values()]
        none = [0] * len(cuts)
        few = [asked if sum(asked) <= n else none for asked, n in zip(wanted, self._counts.sum(axis=0)[1:], strict=True)]
        spare = [asked if sum(asked) <= n else fewer for asked, fewer, n in zip(room, few, self._counts.sum(axis=0)[1:], strict=True)]
        self.levels = tuple(np.array([cuts, *asked]).T for asked in (spare, few, [none] * len(few)))
        """Sources that each split should have, shape (n_splits, n_columns): with room to spare, as many as the cells want, and none but
        cuts. What the whole corpus doesn't have isn't asked for."""

    def shared(self, state: _State) -> dict[Key, str]:
        """Split of each text and recording that owners of several splits have."""
        there = {key: {state.of_owner[name] for name in names} for key, names in self._readers.items()}
        return {
            key: given if (given := state.given.get(key)) in splits else max(splits, key=lambda split: (self.draw(key, split), split))
            for key, splits in there.items()
            if len(splits) > 1
        }

    def draw(self, key: Key, split: str) -> float:
        """The number that a split bids for a text or recording: the largest wins, in proportion to the shares."""
        if (key, split) not in self._draws:
            self._draws[key, split] = math.log(_unit("shared", self._seed, *key, split)) / self.rules[split].share
        return self._draws[key, split]

    def has(self, of_owner: Mapping[str, str], of_shared: Mapping[Key, str]) -> tuple[IntArray, IntArray]:
        """Speakers that can be used in each split, shape (n_splits,), and its sources, shape (n_splits, n_columns)."""
        names = list(self.rules)
        split_of = np.array([names.index(of_owner[name]) for name in self.place], dtype=np.intp)[self._owner]
        usable = np.ones(len(split_of), dtype=np.bool_)
        for row, keys in self._shared_rows:
            usable[row] = all(of_shared.get(key, split) == split for split in (names[split_of[row]],) for key in keys)
        inside = [usable & (split_of == index) for index in range(len(names))]
        speaks = self._counts[:, 0] > 0
        speakers = np.array([len(np.unique(self._owner[mine & speaks])) for mine in inside])
        return speakers, np.array([self._counts[mine].sum(axis=0) for mine in inside])

    def missing(self, of_owner: Mapping[str, str], of_shared: Mapping[Key, str], level: IntArray) -> dict[str, int]:
        """Speakers and sources that each split is short of, together."""
        speakers, sources = self.has(of_owner, of_shared)
        least = np.array([rule.min_speakers for rule in self.rules.values()])
        short = np.maximum(least - speakers, 0) + np.maximum(level - sources, 0).sum(axis=1)
        return dict(zip(self.rules, short.tolist(), strict=True))

    @property
    def could_do(self) -> bool:
        """Whether the whole corpus has as many speakers and cuts as the minimums add up to."""
        speakers, cuts = self.all()
        rules = self.rules.values()
        return sum(rule.min_speakers for rule in rules) <= speakers and sum(rule.min_cuts for rule in rules) <= cuts

    def all(self) -> tuple[int, int]:
        """Speakers and cuts of the whole corpus."""
        return len(np.unique(self._owner[self._counts[:, 0] > 0])), int(self._counts[:, 0].sum())


def _with_minimums(table: _Table, edges: Mapping[str, tuple[float, float]]) -> Splits | _State:
    """The splits, after what lies nearest was moved to splits that are short; where moves led if some are short of their minimum still.

    They are tried with room to spare in every cell first, then with as many sources as the cells want; what no split of this corpus can
    give them the plan tells as shortages. Where moves lead nowhere, they begin again from other hashes.
    """
    begins = [_State({name: _split_at(at, edges) for name, at in table.place_in(draw).items()}, {}) for draw in range(DRAWS)]
    state = begins[0]
    for level, begin in itertools.product(table.levels, begins) if table.could_do else ():
        state, of_shared, missing = _moved(begin, table, edges, level)
        if not any(missing.values()):
            return Splits(state.of_owner, of_shared)
    return state


def _moved(
    state: _State, table: _Table, edges: Mapping[str, tuple[float, float]], level: IntArray
) -> tuple[_State, dict[Key, str], dict[str, int]]:
    """Where moves lead that each make the sum of what is missing smaller, so that they end; and what is still missing there."""
    of_shared = table.shared(state)
    missing = table.missing(state.of_owner, of_shared, level)
    while any(missing.values()):
        short = [name for name in edges if missing[name]]
        for moved in itertools.chain.from_iterable(_moves(state, of_shared, table, name, edges) for name in short):
            now_shared = table.shared(moved)
            now_missing = table.missing(moved.of_owner, now_shared, level)
            if sum(now_missing.values()) < sum(missing.values()):
                state, of_shared, missing = moved, now_shared, now_missing
                break
        else:
            break
    return state, of_shared, missing


def _moves(
    state: _State, of_shared: Mapping[Key, str], table: _Table, split: str, edges: Mapping[str, tuple[float, float]]
) -> Iterator[_State]:
    """What can be done for a split that is short.

    Speakers of other splits come to it, the one whose hash lies nearest first; then texts and recordings that its own speakers have and
    another split was given, the highest bid first; then speakers change places, those whose hashes lie nearest together first.
    """

    def distance(name: str, to: str) -> float:
        return min(abs(table.place[name] - edge) for edge in edges[to])

    others = [name for name in table.place if state.of_owner[name] != split]
    for name in sorted(others, key=lambda name: (distance(name, split), name)):
        yield _State({**state.of_owner, name: split}, state.given)
    for key in sorted((key for key, has in of_shared.items() if has != split), key=lambda key: (-table.draw(key, split), key)):
        yield _State(state.of_owner, {**state.given, key: split})
    swaps = [(name, mine) for name in others for mine in table.place if state.of_owner[mine] == split]
    for name, mine in sorted(swaps, key=lambda pair: (distance(pair[0], split) + distance(pair[1], state.of_owner[pair[0]]), pair)):
        yield _State({**state.of_owner, name: split, mine: state.of_owner[name]}, state.given)


def _too_few(table: _Table, state: _State) -> str:
    """What there is, what is needed, and what to do."""
    needs = ", ".join(
        f"{split}: {counted(rule.min_speakers, 'speaker')} and {counted(rule.min_cuts, 'cut')}" for split, rule in table.rules.items()
    )
    speakers, cuts = table.all()
    left = int(table.has(state.of_owner, table.shared(state))[1][:, 0].sum())
    lost = f", {cuts - left} of them of texts or recordings that another split has" if left < cuts else ""
    return (
        f"the corpus has {counted(speakers, 'speaker')} with {counted(cuts, 'cut')} of speech{lost}, too few for the splits ({needs}); "
        "lower min_speakers or min_cuts, or use a larger corpus"
    )


def _advice(specs: Sequence[SourceSpec], recipe: Recipe) -> str:
    """A `splits:` block that the corpus can fill, to be pasted into the recipe; empty if it can fill none.

    The minimums are lowered together, by as little as will do. Where there are fewer speakers than splits, only the splits that matter
    most are left.
    """
    n_speakers = len({owner(spec) for spec in specs if spec.kind == "speech"})
    kept = sorted(sorted(recipe.splits, key=MATTERS_MOST.index)[:n_speakers], key=SPLITS.index)
    for step in range(1, ADVICE_STEPS + 1):
        rules = _lowered({split: recipe.splits[split] for split in kept}, 1.0 - step / ADVICE_STEPS)
        smaller = recipe.model_copy(update={"splits": rules, "dimensions": ()})
        if rules and isinstance(_with_minimums(_Table(specs, smaller), _edges(smaller)), Splits):
            lines = [
                f"\n    {split}: {{share: {rule.share:g}, min_speakers: {rule.min_speakers}, min_cuts: {rule.min_cuts}}}"
                for split, rule in rules.items()
            ]
            return "\nWritten into the recipe, this is what the corpus can fill:\n  splits:" + "".join(lines)
    return ""


def _lowered(rules: Mapping[str, SplitRule], part: float) -> dict[str, SplitRule]:
    """Rules with a part of their minimums, and with shares that add up to 1, in hundredths."""
    total = sum(rule.share for rule in rules.values())
    shares = {split: max(round(rule.share / total, 2), 0.01) for split, rule in rules.items()}
    largest = max(shares, key=lambda split: shares[split])
    shares[largest] = round(1.0 - sum(share for split, share in shares.items() if split != largest), 2)
    return {
        split: SplitRule(
            share=shares[split],
            min_speakers=max(1, math.floor(rule.min_speakers * part)),
            min_cuts=max(1, math.floor(rule.min_cuts * part)),
        )
        for split, rule in rules.items()
    }
