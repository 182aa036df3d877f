"""Splits that share no speaker, no text and no recording, in which nobody is moved by who else is there."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import speech_of, spoken, with_splits

from builder import keys, plan, recipe, splits
from builder.errors import CellUnfilled
from builder.recipe import Recipe
from builder.records import Reason, SourceSpec
from builder.splits import Splits
from builder.words import counted

ROOT = Path(__file__).parent.parent
DEFAULT = recipe.load(ROOT / "recipes" / "default.yaml")
SPLITS = ("train", "validation", "test")

Said = dict[str, list[tuple[str | None, str]]]
"""Speaker -> (text, file) of each of their cuts."""

speakers_of_words = st.dictionaries(
    st.sampled_from([f"speaker {number:02d}" for number in range(40)]),
    st.lists(
        st.tuples(st.one_of(st.none(), st.sampled_from("abcdefghij")), st.sampled_from(["", "", "f1", "f2", "f3"])), min_size=1, max_size=4
    ),
    min_size=3,
    max_size=40,
)


def cuts_of(said: Said) -> tuple[SourceSpec, ...]:
    """A cut for each text of each speaker."""
    return tuple(spoken(name, number, text, sha256=file) for name, cuts in said.items() for number, (text, file) in enumerate(cuts))


def outcome(cuts: tuple[SourceSpec, ...], used: Recipe) -> Splits | str:
    """The splits, or why there are none."""
    try:
        return splits.assign(cuts, used)
    except CellUnfilled as error:
        return str(error)


def kept(cuts: tuple[SourceSpec, ...], found: Splits) -> dict[str, list[SourceSpec]]:
    """Split -> the cuts that it may use."""
    usable: dict[str, list[SourceSpec]] = {split: [] for split in SPLITS}
    for cut in cuts:
        where = found.of(cut)
        if not isinstance(where, Reason):
            usable[where].append(cut)
    return usable


@settings(deadline=None, max_examples=40)
@given(said=speakers_of_words, seed=st.integers(0, 1000))
def test_splits_share_nothing(said: Said, seed: int) -> None:
    """Of what may be used no speaker, text or file is in two splits; each split has its minimum; or there's too little, and it's said."""
    cuts = cuts_of(said)
    found = outcome(cuts, with_splits(DEFAULT, seed=seed))
    if isinstance(found, str):
        assert f"the corpus has {len(said)} speakers with {len(cuts)} cuts of speech" in found
        return
    assert set(found.of_owner) == set(said)
    usable = kept(cuts, found)
    assert all(usable.values())
    for one, other in itertools.combinations(SPLITS, 2):
        for what in (lambda cut: cut.speaker_id, lambda cut: cut.text, lambda cut: cut.parameters["sha256"]):
            assert not {what(cut) for cut in usable[one]} & {what(cut) for cut in usable[other]} - {None, ""}


@settings(deadline=None, max_examples=40)
@given(said=speakers_of_words, seed=st.integers(0, 1000))
def test_nothing_is_refused_without_need(said: Said, seed: int) -> None:
    """What only one split has is never refused, and each text that is shared is kept by one split that reads it."""
    cuts = cuts_of(said)
    found = outcome(cuts, with_splits(DEFAULT, seed=seed))
    if isinstance(found, str):
        return
    for cut in cuts:
        where = found.of(cut)
        if isinstance(where, Reason):
            what = "text" if where is Reason.TEXT_IN_OTHER_SPLIT else "recording"
            (key,) = (key for key in splits.keys_of(cut) if key[0] == what)
            has = {found.of_owner[other.speaker_id or ""] for other in cuts if key in splits.keys_of(other)}
            assert found.of_shared[key] in has - {found.of_owner[cut.speaker_id or ""]}


@settings(deadline=None, max_examples=40)
@given(said=speakers_of_words, data=st.data())
def test_order_of_sources_does_not_matter(said: Said, data: st.DataObject) -> None:
    """The same cuts in any order give the same splits, or the same refusal."""
    cuts = cuts_of(said)
    mixed = tuple(data.draw(st.permutations(cuts)))
    assert outcome(mixed, with_splits(DEFAULT)) == outcome(cuts, with_splits(DEFAULT))


names = st.sets(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=6), min_size=60, max_size=90)


@settings(deadline=None, max_examples=40)
@given(
    names=names,
    newcomer=st.text("ABCXYZ", min_size=1, max_size=6),
    texts=st.lists(st.integers(0, 9), min_size=1),
    seed=st.integers(0, 1000),
)
def test_a_new_speaker_moves_nobody(names: set[str], newcomer: str, texts: list[int], seed: int) -> None:
    """Where no split is short everyone stays when a speaker joins, whatever he reads; a shared text stays or goes to his split.

    No dimension is asked for: cells that 60 speakers can't fill with room to spare may move somebody when there are 61.
    """
    used = with_splits(DEFAULT, seed=seed).model_copy(update={"dimensions": ()})
    there = tuple(spoken(name, number, f"text {(len(name) + number * ord(name[0])) % 10}") for name in sorted(names) for number in range(3))
    there += speech_of(dict.fromkeys(sorted(names), 1))
    joined = (*there, *(spoken(newcomer, number, f"text {text}") for number, text in enumerate(texts)))
    before, after = splits.assign(there, used), splits.assign(joined, used)
    assert {name: split for name, split in after.of_owner.items() if name != newcomer} == before.of_owner
    for key, split in before.of_shared.items():
        assert after.of_shared[key] in (split, after.of_owner[newcomer])


@pytest.mark.parametrize("seed", range(5))
def test_a_new_dimension_moves_nobody(seed: int) -> None:
    """Splits depend on the corpus, the seed and the recipe's splits: with one dimension or fifteen they're the same."""
    sources = {"speech": speech_of({f"s{number:02d}": 1 + number % 5 for number in range(22)})}
    whole = with_splits(DEFAULT, 6, 15, seed=seed)
    alone = whole.model_copy(update={"dimensions": whole.dimensions[:1]})
    assert plan.make(alone, sources).splits == plan.make(whole, sources).splits


def test_a_speakers_split_is_known_without_the_others() -> None:
    """It comes from seed, corpus and name: alone, or among a thousand, and in another corpus the same name is drawn anew."""
    used = with_splits(DEFAULT)
    found = splits.assign(speech_of({f"s{number}": 1 for number in range(1000)}), used).of_owner
    edges = splits._edges(used)
    assert all(found[name] == splits._split_at(splits._unit("split", used.seed, "c", name), edges) for name in found)
    elsewhere = tuple(spoken(f"s{number}", 0, corpus="d") for number in range(1000))
    assert splits.assign(elsewhere, used).of_owner != found


def test_a_passage_that_everyone_reads_joins_nobody() -> None:
    """As in VCTK: 110 speakers, 24 sentences that all of them read; speakers keep their shares, and only the passage is lost to others."""
    voices = [f"p{number}" for number in range(225, 335)]
    passage = [spoken(name, number, f"rainbow {number}") for name in voices for number in range(24)]
    own = [spoken(name, number, f"{name} {number}") for name in voices for number in range(24, 60)]
    found = splits.assign((*passage, *own), DEFAULT)
    alone = splits.assign(own, DEFAULT)
    assert found.of_owner == alone.of_owner
    assert min(Counter(found.of_owner.values()).values()) > 15
    assert not any(isinstance(found.of(cut), Reason) for cut in own)
    refused = sum(found.of(cut) is Reason.TEXT_IN_OTHER_SPLIT for cut in passage)
    assert 0.5 < refused / len(passage) < 0.75
    assert len({found.of_shared[key] for key in found.of_shared}) == 3


def test_shared_texts_go_by_the_shares() -> None:
    """Of many texts that all splits read, each split gets about its share."""
    voices = [f"s{number}" for number in range(30)]
    found = splits.assign((spoken(name, text, f"text {text}") for name in voices for text in range(1500)), with_splits(DEFAULT))
    count = Counter(found.of_shared.values())
    assert {split: count[split] / 1500 for split in SPLITS} == pytest.approx({"train": 0.45, "validation": 0.25, "test": 0.3}, abs=0.04)


def test_a_file_of_two_speakers_is_in_one_split() -> None:
    """A conversation, or one file under two names: one split has it, the others' stretches are refused under their own reason."""
    others = speech_of({f"s{number}": 1 for number in range(30)})
    refused = 0
    for seed in range(12):
        talk = tuple(spoken(name, number, sha256="talk") for name in ("a", "b") for number in range(2))
        found = splits.assign((*talk, *others), with_splits(DEFAULT, seed=seed))
        where = {found.of(cut) for cut in talk}
        apart = found.of_owner["a"] != found.of_owner["b"]
        assert (Reason.RECORDING_IN_OTHER_SPLIT in where) == apart
        assert len(where) == 1 + apart
        refused += apart
    assert refused


def test_splits_have_their_shares() -> None:
    """Of many speakers, each split has about the share that the recipe says."""
    found = splits.assign(speech_of({f"s{number}": 1 for number in range(3000)}), with_splits(DEFAULT))
    count = Counter(found.of_owner.values())
    assert {split: count[split] / 3000 for split in SPLITS} == pytest.approx({"train": 0.45, "validation": 0.25, "test": 0.3}, abs=0.03)


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=25),
    speakers=st.integers(1, 6),
    cuts=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_minimums_are_met_or_the_error_has_the_numbers(counts: list[tuple[int, int]], speakers: int, cuts: int, seed: int) -> None:
    """Every split gets its speakers and cuts that may be used; else the message says what there is, what is needed, and what to do."""
    sources = tuple(
        spoken(f"s{number:02d}", cut, f"text {cut}" if cut < shared else None)
        for number, (own, shared) in enumerate(counts)
        for cut in range(own + shared)
    )
    used = with_splits(DEFAULT, speakers, cuts, seed=seed)
    found = outcome(sources, used)
    if isinstance(found, str):
        needs = ", ".join(f"{name}: {counted(speakers, 'speaker')} and {counted(cuts, 'cut')}" for name in used.splits)
        assert found.startswith(f"the corpus has {counted(len(counts), 'speaker')} with {counted(len(sources), 'cut')} of speech")
        told, advice = found.split("\n", 1)
        assert told.endswith(f", too few for the splits ({needs}); lower min_speakers or min_cuts, or use a larger corpus")
        assert advice.startswith("Written into the recipe, this is what the corpus can fill:\n  splits:\n")
        return
    for mine in kept(sources, found).values():
        assert len({cut.speaker_id for cut in mine}) >= speakers
        assert len(mine) >= cuts


def test_too_little_is_told_with_what_the_splits_refuse() -> None:
    """Where everybody reads the same words, the message says how many cuts that costs."""
    with pytest.raises(
        CellUnfilled, match=r"^the corpus has 6 speakers with 6 cuts of speech, [1-5] of them of texts or recordings that another"
    ):
        splits.assign(tuple(spoken(f"s{number}", 0, "the same") for number in range(6)), with_splits(DEFAULT))


@pytest.mark.slow
def test_a_corpus_of_ten_texts_fills_three_splits() -> None:
    """Ten speakers who all read the same ten sentences, as in EmoDB: under every seed each split gets speakers and texts of its own."""
    cuts = tuple(spoken(f"s{number}", text, f"text {text}") for number in range(10) for text in range(10))
    for seed in range(40):
        usable = kept(cuts, splits.assign(cuts, with_splits(DEFAULT, 2, 4, seed=seed)))
        assert min(len(mine) for mine in usable.values()) >= 4


def test_enough_equal_speakers_are_always_enough() -> None:
    """With as many equal speakers as the minimums need, no seed fails."""
    sources = speech_of({f"s{number:02d}": 4 for number in range(16)})
    for seed in range(200):
        found = Counter(splits.assign(sources, DEFAULT.model_copy(update={"seed": seed})).of_owner.values())
        assert found == {split: rule.min_speakers for split, rule in DEFAULT.splits.items()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Author of the danger trail, Philip Steels, etc.", "author of the danger trail philip steels etc"),
        ("  two   blanks\tand\na line  ", "two blanks and a line"),
        ("Una señal pequeña", "una sen\u0303al pequen\u0303a"),
        ("ＡＢＣ", "abc"),
        ("STRASSE", "straße"),
        ("well-known fact", "well known fact"),
        ("don’t", "don't"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("room ٣٤", "room 34"),
        ("ﬁnd", "find"),
        ("שָׁלוֹם", "שלום"),
        ("كِتَاب", "كتاب"),
        ("㍿", "株式会社"),
    ],
)
def test_the_same_text_is_the_same_however_it_is_written(one: str, other: str) -> None:
    """Case, punctuation, blanks, Unicode form, script of digits and optional points don't make another text: one split has it."""
    assert keys.spoken_key(one) == keys.spoken_key(other) != ""
    sources = (spoken("a", 0, one), spoken("b", 0, other), *speech_of({f"s{number}": 1 for number in range(30)}))
    for seed in range(12):
        found = splits.assign(sources, with_splits(DEFAULT, seed=seed))
        assert len({found.of(source) for source in sources[:2]} - {Reason.TEXT_IN_OTHER_SPLIT}) == 1


@pytest.mark.parametrize(("one", "other"), [("room 3", "room 4"), ("कि", "का"), ("ต้น", "ตน"), ("ばら", "はら"), ("pêche", "peche")])
def test_other_words_are_another_text(one: str, other: str) -> None:
    """Digits, signs of vowels and tones, and letters with an accent tell words apart."""
    assert keys.spoken_key(one) != keys.spoken_key(other)


@given(text=st.text(max_size=30), form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_the_key_of_a_text_is_its_own_key(text: str, form: Any) -> None:
    """Normalising twice changes nothing more, and no Unicode form of a text has another key."""
    key = keys.spoken_key(text)
    assert keys.spoken_key(key) == key
    assert keys.spoken_key(unicodedata.normalize(form, text)) == key


@pytest.mark.parametrize("text", ["...", "?!", "—", "  ", "\ufe0f", "\u0301"])
def test_a_text_without_letters_is_no_text(text: str) -> None:
    """Speakers whose transcript is empty but for punctuation don't say the same: nothing is refused."""
    sources = tuple(spoken(f"s{number:02d}", 0, text) for number in range(40))
    found = splits.assign(sources, with_splits(DEFAULT))
    assert found.of_shared == {}
    assert set(found.of_owner.values()) == set(SPLITS)


def test_nothing_to_split_is_no_split() -> None:
    """Synthesis alone has no speakers to assign."""
    assert splits.assign((), DEFAULT) == Splits({}, {})
