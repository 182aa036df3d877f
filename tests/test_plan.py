"""The plan: cells filled to the count, candidates that depend on their key alone; and the keys."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import speech_of, spoken, with_splits

from builder import keys, plan, recipe
from builder.plan import Plan
from builder.recipe import Recipe
from builder.records import Cell, PairPlan, ShardPlan, SourceSpec

ROOT = Path(__file__).parent.parent
SYNTHESIS = recipe.load(ROOT / "recipes" / "synthesis.yaml")
DEFAULT = recipe.load(ROOT / "recipes" / "default.yaml")
SPLITS = ("train", "validation", "test")


def with_parts(used: Recipe, **changes: Any) -> Recipe:
    """A recipe with the same changes in every dimension."""
    return used.model_copy(update={"dimensions": tuple(part.model_copy(update=changes) for part in used.dimensions)})


def take(shard: ShardPlan, cell: Cell, count: int = 30) -> list[PairPlan]:
    """The first candidates of a cell."""
    return list(itertools.islice(plan.candidates(shard, cell), count))


# -- shards -----------------------------------------------------------------------------------------------------------


def real_sources(count: int = 24, each: int = 6) -> dict[str, tuple[SourceSpec, ...]]:
    """Made-up speech, syllables and vowels of equal speakers."""
    names = [f"s{number:02d}" for number in range(count)]
    return {kind: tuple(spoken(name, number, None, kind) for name in names for number in range(each)) for kind in recipe.SPEECH_KINDS}


def wanted(made: Plan) -> dict[Cell, int]:
    """Pairs to fill by cell, over all shards."""
    total: Counter[Cell] = Counter()
    for shard in made.shards:
        for cell, count in shard.wanted:
            total[cell] += count
    return dict(total)


def expected(used: Recipe) -> dict[Cell, int]:
    """What the recipe asks for, cell by cell."""
    cells: dict[Cell, int] = {}
    for part, split in itertools.product(used.dimensions, used.splits):
        controls: Mapping[Any, int] = part.controls_per_kind
        for rule in part.sources:
            for tier, curve in itertools.product(part.tiers_on(rule), part.curves):
                cells[Cell(part.dimension, tier, curve, rule.kind, split)] = part.pairs(rule, split)
            cells[Cell(part.dimension, "control", "flat", rule.kind, split)] = controls.get(split, 0)
    return {cell: count for cell, count in cells.items() if count > 0}


def test_the_plan_asks_for_what_the_recipe_says() -> None:
    """Every cell of dimension, tier, curve, kind and split, with its count, and the controls; nothing else."""
    made = plan.make(with_splits(DEFAULT), real_sources())
    assert wanted(made) == expected(DEFAULT)
    assert all(shard.seed == DEFAULT.seed and shard.sample_rate_hz == DEFAULT.sample_rate_hz for shard in made.shards)


@pytest.mark.parametrize("largest", [1, 2, 3, 5, 7, 10, 24, 50, 95, 500])
def test_smaller_shards_ask_for_the_same_pairs(largest: int) -> None:
    """Whatever a shard may hold at most: the counts per cell add up, no shard is empty, none holds more."""
    made = plan.make(with_parts(with_splits(DEFAULT), max_pairs_per_shard=largest), real_sources())
    assert wanted(made) == expected(DEFAULT)
    assert min(shard.n_wanted for shard in made.shards) > 0
    assert max(shard.n_wanted for shard in made.shards) <= largest


def test_a_cell_is_spread_over_shards() -> None:
    """No shard does all the work of a cell while others do none of it."""
    made = plan.make(with_parts(SYNTHESIS, pairs_per_cell={"train": 40}, max_pairs_per_shard=100), {})
    for cell, count in wanted(made).items():
        shares = [asked for shard in made.shards for other, asked in shard.wanted if other == cell]
        assert sum(shares) == count
        assert max(shares) - min(shares) <= 1


@settings(deadline=None, max_examples=15)
@given(largest=st.integers(1, 200), seed=st.integers(0, 1000))
def test_shards_share_no_real_source(largest: int, seed: int) -> None:
    """The pools of one dimension and kind are disjoint over all shards and splits, and hold every source of the split's speakers."""
    used = with_parts(with_splits(DEFAULT, seed=seed), max_pairs_per_shard=largest)
    real = real_sources()
    made = plan.make(used, real)
    for part in used.dimensions:
        for kind in {rule.kind for rule in part.sources} & set(real):
            for controls in (False, True):
                shards = [shard for shard in made.shards if (shard.dimension, shard.controls) == (part.dimension, controls)]
                pools = [(shard.split, spec) for shard in shards for spec in shard.pool[kind]]
                assert sorted(spec.source_id for _, spec in pools) == sorted(spec.source_id for spec in real[kind])
                assert all(made.split_of[spec.speaker_id or ""] == split for split, spec in pools)


def test_sources_without_a_speaker_are_used() -> None:
    """A cut whose speaker isn't known is its own speaker: it has a split, and its shards have it."""
    sources = tuple(spoken(None, number) for number in range(60))
    made = plan.make(with_splits(DEFAULT), {"speech": sources})
    pools = [spec.source_id for shard in made.shards if shard.dimension == "pitch" and not shard.controls for spec in shard.pool["speech"]]
    assert sorted(pools) == sorted(spec.source_id for spec in sources)


def test_what_no_split_may_use_is_counted() -> None:
    """Each source is in its split's pool or under a reason; a text that everyone reads is in one split's pools only."""
    names = [f"s{number:02d}" for number in range(40)]
    own = [spoken(name, number, f"{name} {number}") for name in names for number in range(3)]
    passage = [spoken(name, 9, "When the sunlight strikes raindrops in the air") for name in names]
    made = plan.make(with_splits(DEFAULT), {"speech": (*own, *passage)})
    shards = [shard for shard in made.shards if shard.dimension == "pitch" and not shard.controls]
    pools = {spec.source_id: shard.split for shard in shards for spec in shard.pool["speech"]}
    assert len(pools) + sum(made.refused.values()) == len(own) + len(passage)
    kept = [pools[spec.source_id] for spec in passage if spec.source_id in pools]
    assert len(set(kept)) == 1
    assert made.refused == {"text_in_other_split": len(passage) - len(kept)}
    assert all(spec.source_id in pools for spec in own)


def test_names_of_shards_are_distinct() -> None:
    """Each shard has its own file; its name counts within dimension and split."""
    made = plan.make(with_parts(with_splits(DEFAULT), max_pairs_per_shard=50), real_sources())
    assert len({shard.name for shard in made.shards}) == len(made.shards)
    groups = itertools.groupby(made.shards, key=lambda shard: (shard.controls, shard.dimension, shard.split))
    for (controls, dimension, split), group in groups:
        names = [shard.name for shard in group]
        start = f"controls/{dimension}-{split}" if controls else f"{dimension}/{split}"
        assert names == [f"{start}-{index:05d}-of-{len(names):05d}" for index in range(len(names))]


def test_spans_give_the_tier_on_every_curve() -> None:
    """A span is the tier's contrast over what the curve makes of it, so that every curve of a tier sounds as large."""
    for shard in plan.make(with_splits(DEFAULT), real_sources()).shards:
        (part,) = [part for part in DEFAULT.dimensions if part.dimension == shard.dimension]
        for (tier, curve, kind), (span, contrast, jnd) in shard.spans.items():
            if shard.controls:
                assert (tier, curve, span, contrast) == ("control", "flat", 0.0, 0.0)
                continue
            assert contrast == pytest.approx(part.tiers[tier] * part.spec.jnd.on(kind), rel=1e-4)
            assert span == pytest.approx(contrast * (1.0 if curve == "step" else 1.5), rel=1e-3)
            assert span <= part.spec.max_span[kind] + 1e-6
            assert jnd == pytest.approx(part.spec.jnd.on(kind), abs=1e-6)


def test_what_is_out_of_reach_is_told() -> None:
    """A tier that a kind can't span isn't planned, and is in the plan's list of what doesn't exist."""
    far = with_parts(SYNTHESIS, tiers={"near": 2.0, "far": 20.0})
    far = far.model_copy(update={"dimensions": tuple(part for part in far.dimensions if part.dimension == "brightness")})
    (part,) = far.dimensions
    part = part.model_copy(update={"sources": tuple(rule.model_copy(update={"tiers": None}) for rule in part.sources)})
    made = plan.make(far.model_copy(update={"dimensions": (part,)}), {})
    assert {cell.tier for cell in wanted(made) if not cell.is_control} == {"near"}
    assert set(made.unreachable) == {("brightness", rule.kind, "far") for rule in part.sources}


def test_order_of_sources_is_not_in_the_plan() -> None:
    """The same real sources, listed in another order, are the same plan to the digest."""
    real = real_sources()
    mixed = {kind: tuple(random.Random(1).sample(specs, len(specs))) for kind, specs in reversed(real.items())}
    assert plan.make(with_splits(DEFAULT), mixed).digest == plan.make(with_splits(DEFAULT), real).digest


def test_key_order_of_the_recipe_is_not_in_the_plan() -> None:
    """Recipes with the same digest and seed are the same plan, whatever the order of keys in their mappings."""
    turned = with_parts(SYNTHESIS, tiers=dict(reversed(SYNTHESIS.dimensions[0].tiers.items())))
    turned = turned.model_copy(update={"splits": dict(reversed(SYNTHESIS.splits.items()))})
    assert turned.digest == SYNTHESIS.digest
    assert plan.make(turned, {}).digest == plan.make(SYNTHESIS, {}).digest


def test_the_plan_knows_nothing_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other cores, with the global generators in other states: the same plan and the same parameters."""
    before = plan.make(with_splits(DEFAULT), real_sources())
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    random.seed(3)
    np.random.seed(3)
    after = plan.make(with_splits(DEFAULT), real_sources())
    assert after == before
    assert after.digest == before.digest
    names = {*Recipe.model_fields, *(field.name for record in (ShardPlan, PairPlan) for field in fields(record))}
    assert not [name for name in names if "worker" in name or "process" in name]


def test_shards_made_apart_are_the_shards_of_the_plan() -> None:
    """A shard's candidates come from its own record: not from other shards, their order, or what was drawn before."""
    made = plan.make(with_parts(with_splits(DEFAULT), max_pairs_per_shard=60), real_sources())
    forwards = {(shard.name, cell): take(shard, cell, 4) for shard in made.shards for cell, _ in shard.wanted}
    backwards = {(shard.name, cell): take(shard, cell, 4) for shard in reversed(made.shards) for cell, _ in reversed(shard.wanted)}
    assert backwards == forwards


# -- candidates -------------------------------------------------------------------------------------------------------


def one_shard(kind: str, split: str = "test", used: Recipe = DEFAULT) -> tuple[ShardPlan, list[Cell]]:
    """A shard of the default recipe with cells of a kind."""
    made = plan.make(with_splits(used), real_sources())
    shards = [shard for shard in made.shards if shard.split == split and not shard.controls]
    shard = next(shard for shard in shards if any(cell.kind == kind for cell, _ in shard.wanted))
    return shard, [cell for cell, _ in shard.wanted if cell.kind == kind]


@pytest.mark.parametrize("kind", ["speech", "syllables"])
def test_a_cell_tries_each_real_source_once(kind: str) -> None:
    """All of the shard's pool, none twice; then the row ends."""
    shard, cells = one_shard(kind)
    for cell in cells:
        tried = [pair.source.source_id for pair in plan.candidates(shard, cell)]
        assert sorted(tried) == sorted(spec.source_id for spec in shard.pool[kind])


@pytest.mark.parametrize("kind", ["speech", "syllables"])
def test_speakers_take_turns(kind: str) -> None:
    """Nobody is tried a second time before everyone was tried once, and so on; in an order that isn't the same in all cells."""
    shard, cells = one_shard(kind)
    n_speakers = len({spec.speaker_id for spec in shard.pool[kind]})
    assert n_speakers > 3
    orders = set()
    for cell in cells:
        order = [pair.source.speaker_id for pair in plan.candidates(shard, cell)]
        for turn in range(0, len(order), n_speakers):
            assert len(set(order[turn : turn + n_speakers])) == n_speakers
        orders.add(tuple(order[:n_speakers]))
    assert len(orders) > len(cells) / 2


def test_a_speaker_with_few_cuts_drops_out_of_the_round() -> None:
    """Speakers with more cuts go on among themselves."""
    shard, cells = one_shard("speech")
    uneven = speech_of({"much": 5, "some": 2, "once": 1})
    order = [pair.source.speaker_id for pair in plan.candidates(replace(shard, pool={"speech": uneven}), cells[0])]
    assert (set(order[:3]), set(order[3:5]), order[5:]) == ({"much", "some", "once"}, {"much", "some"}, ["much"] * 3)


@pytest.mark.parametrize("kind", ["speech", "voice", "tone"])
def test_cells_have_their_own_order(kind: str) -> None:
    """The same sources come in another order in another cell, so that no source is always first."""
    shard, cells = one_shard(kind)
    firsts = [tuple(pair.source.source_id for pair in take(shard, cell, 6)) for cell in cells]
    assert len(set(firsts)) == len(cells)
    assert len({first[0] for first in firsts}) > 2


def test_order_of_a_pool_is_not_in_its_candidates() -> None:
    """Candidates are the same from a pool that's listed in another order."""
    shard, cells = one_shard("speech")
    turned = replace(shard, pool={kind: specs[::-1] for kind, specs in shard.pool.items()})
    assert take(turned, cells[0]) == take(shard, cells[0])


@pytest.mark.parametrize("kind", ["voice", "tone", "noise", "voice_syllables", "pulses"])
def test_synthesis_never_ends_nor_repeats(kind: str) -> None:
    """A cell that needs a thousand candidates gets a thousand different ones."""
    made = plan.make(SYNTHESIS, {})
    shard = next(shard for shard in made.shards if any(cell.kind == kind for cell, _ in shard.wanted))
    cell = next(cell for cell, _ in shard.wanted if cell.kind == kind)
    pairs = take(shard, cell, 1000)
    assert len({pair.source.source_id for pair in pairs}) == 1000
    assert {(pair.cell, pair.split, pair.dimension) for pair in pairs} == {(cell, shard.split, shard.dimension)}


def test_cells_share_their_first_synthetic_sources() -> None:
    """Cells of a shard draw from the same block of sources, so that analyses are shared; each in its own order."""
    shard, cells = one_shard("voice")
    firsts = [frozenset(pair.source.source_id for pair in take(shard, cell, plan.SYNTHESIS_BLOCK)) for cell in cells]
    assert len(set(firsts)) == 1


def synthetic_ids(made: Plan, split: str | None = None, count: int = 40) -> set[str]:
    """Identifiers that the plan's cells begin with."""
    return {
        pair.source.source_id
        for shard in made.shards
        if split in (None, shard.split)
        for cell, _ in shard.wanted
        if cell.kind not in recipe.SPEECH_KINDS
        for pair in take(shard, cell, count)
    }


def test_splits_draw_different_synthetic_sources() -> None:
    """No synthetic source of one split is ever a candidate of another."""
    made = plan.make(SYNTHESIS, {})
    by_split = {split: synthetic_ids(made, split) for split in SPLITS}
    assert all(by_split.values())
    assert not any(by_split[one] & by_split[other] for one, other in itertools.combinations(SPLITS, 2))


def test_shards_of_a_split_draw_different_synthetic_sources() -> None:
    """Cut into shards, each has synthetic sources of its own, and together they're those with the lowest numbers."""
    made = plan.make(with_parts(SYNTHESIS, max_pairs_per_shard=50), {})
    shards = [shard for shard in made.shards if (shard.dimension, shard.split, shard.controls) == ("pitch", "train", False)]
    assert len(shards) > 1
    cells = {shard.name: next(cell for cell, _ in shard.wanted if cell.kind == "voice") for shard in shards}
    found = [{pair.source.source_id for pair in take(shard, cells[shard.name], 200)} for shard in shards]
    assert sum(len(ids) for ids in found) == len(set().union(*found))


def test_another_seed_gives_another_test_split() -> None:
    """Other synthetic sources, none shared; real ones in another order."""
    one, other = SYNTHESIS, SYNTHESIS.model_copy(update={"seed": 2})
    assert not synthetic_ids(plan.make(one, {}), "test") & synthetic_ids(plan.make(other, {}), "test")
    shard, cells = one_shard("speech")
    again, same_cells = one_shard("speech", used=DEFAULT.model_copy(update={"seed": 2}))
    assert cells == same_cells
    assert [pair.source for pair in take(shard, cells[0])] != [pair.source for pair in take(again, cells[0])]


def test_adding_a_dimension_or_kind_moves_no_candidate() -> None:
    """Candidates of a cell don't depend on what else is built."""
    whole = plan.make(SYNTHESIS, {})
    alone = plan.make(SYNTHESIS.model_copy(update={"dimensions": SYNTHESIS.dimensions[:1]}), {})
    name = SYNTHESIS.dimensions[0].dimension
    assert [shard for shard in whole.shards if shard.dimension == name] == list(alone.shards)
    part = SYNTHESIS.dimensions[0]
    fewer = part.model_copy(update={"sources": part.sources[:1]})
    shard = next(shard for shard in alone.shards if shard.split == "test")
    less = next(shard for shard in plan.make(SYNTHESIS.model_copy(update={"dimensions": (fewer,)}), {}).shards if shard.split == "test")
    for cell, _ in less.wanted:
        assert take(less, cell) == take(shard, cell)


def test_no_two_pairs_share_a_parameter_vector() -> None:
    """Over a whole plan the pairs that are tried first differ in cell or source: nothing is planned twice."""
    made = plan.make(with_splits(DEFAULT), real_sources())
    pairs = [pair for shard in made.shards for cell, count in shard.wanted for pair in take(shard, cell, count)]
    vectors = Counter(keys.digest([str(pair.cell), pair.source.source_id, dict(pair.source.parameters)]) for pair in pairs)
    assert len(pairs) == sum(shard.n_wanted for shard in made.shards)
    assert max(vectors.values()) == 1


def test_smaller_shards_keep_the_distribution() -> None:
    """What's drawn doesn't drift with the number of shards: F0 of planned voices has the same spread in one shard and in many."""
    spreads = []
    for largest in (1000, 30):
        made = plan.make(with_parts(SYNTHESIS, pairs_per_cell={"train": 10}, max_pairs_per_shard=largest), {})
        values = {
            pair.source.source_id: pair.source.parameters["f0_hz"]
            for shard in made.shards
            if shard.dimension == "loudness"
            for cell, count in shard.wanted
            if cell.kind == "voice"
            for pair in take(shard, cell, 3 * count)
        }
        spreads.append(np.percentile(list(values.values()), [10, 50, 90]))
    np.testing.assert_allclose(spreads[0], spreads[1], rtol=0.2)


# -- digests ----------------------------------------------------------------------------------------------------------


def changed_shards(shard: ShardPlan) -> Iterable[tuple[str, ShardPlan]]:
    """The shard with each of its ingredients changed, one at a time."""
    cell, count = shard.wanted[0]
    key, values = next(iter(shard.spans.items()))
    spec = shard.pool["speech"][0]
    rest = shard.pool["speech"][1:]
    yield "dimension", replace(shard, dimension="loudness")
    yield "split", replace(shard, split="train")
    yield "index", replace(shard, index=shard.index + 1)
    yield "count", replace(shard, count=shard.count + 1)
    yield "wanted: a count", replace(shard, wanted=((cell, count + 1), *shard.wanted[1:]))
    yield "wanted: a cell", replace(shard, wanted=((replace(cell, curve="flat"), count), *shard.wanted[1:]))
    yield "wanted: one fewer", replace(shard, wanted=shard.wanted[1:])
    for number, name in enumerate(("span", "contrast", "jnd")):
        altered = tuple(value + (place == number) * 0.001 for place, value in enumerate(values))
        yield f"spans: {name}", replace(shard, spans={**shard.spans, key: altered})
    yield "controls", replace(shard, controls=True)
    yield "sex", replace(shard, sex={spec.speaker_id or "": "f"})
    yield "movement", replace(shard, movement={**shard.movement, "speech": 0.25})
    for field in fields(shard.margins):
        value = getattr(shard.margins, field.name)
        other = (0.5, 1.5) if field.name == "difference_gain" else ("difference",) if field.name == "bases" else value + 0.01
        yield f"margins: {field.name}", replace(shard, margins=replace(shard.margins, **{field.name: other}))
    yield "seed", replace(shard, seed=shard.seed + 1)
    yield "sample_rate_hz", replace(shard, sample_rate_hz=22_050)
    yield "pool: one fewer", replace(shard, pool={"speech": rest})
    for name in ("source_id", "language", "text", "licence", "attribution"):
        yield f"pool: {name}", replace(shard, pool={"speech": (replace(spec, **{name: f"{getattr(spec, name)} too"}), *rest)})
    moved = replace(spec, parameters={**spec.parameters, "end": 32001})
    yield "pool: parameters", replace(shard, pool={"speech": (moved, *rest)})


def test_every_ingredient_is_in_a_shards_digest() -> None:
    """Whatever ends up in a row decides whether a finished shard may be kept: also text, language, licence and attribution."""
    shard, _ = one_shard("speech")
    tried = {field.name for field in fields(ShardPlan)} - {"wanted", "pool", "spans", "margins"}
    digests = {"as it is": plan.shard_digest(shard)}
    digests.update({name: plan.shard_digest(other) for name, other in changed_shards(shard)})
    assert tried <= set(digests), "an ingredient of a shard isn't tried here"
    same = Counter(digests.values())
    assert {name for name, value in digests.items() if same[value] > 1} == set()


def test_the_same_plan_has_the_same_digest() -> None:
    """Made twice, in one process or another."""
    assert plan.make(SYNTHESIS, {}).digest == plan.make(SYNTHESIS, {}).digest


def test_every_shard_is_in_the_plans_digest() -> None:
    """Seed and counts change it."""
    base = plan.make(SYNTHESIS, {}).digest
    assert plan.make(SYNTHESIS.model_copy(update={"seed": 2}), {}).digest != base
    assert plan.make(with_parts(SYNTHESIS, max_pairs_per_shard=50), {}).digest != base
    assert plan.make(SYNTHESIS.model_copy(update={"dimensions": SYNTHESIS.dimensions[:2]}), {}).digest != base


# -- keys -------------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(max_size=4), json_values, max_size=6), data=st.data())
def test_a_digest_does_not_know_key_order(value: dict[str, Any], data: st.DataObject) -> None:
    """The same mapping in another order, or read back from JSON, has the same digest."""
    order = data.draw(st.permutations(list(value)))
    assert keys.digest({key: value[key] for key in order}) == keys.digest(value)
    assert keys.digest(json.loads(json.dumps(value))) == keys.digest(value)


@given(one=json_values, other=json_values)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    """Text isn't a number, and one list isn't another; equal JSON alone is equal."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (keys.digest(one) == keys.digest(other)) == same


@given(parts=st.lists(st.one_of(st.integers(0, 9), st.text("ab1", max_size=3)), min_size=2, max_size=5))
def test_parts_of_a_key_do_not_run_together(parts: list[Any]) -> None:
    """("a", "b") isn't ("ab",), nor 1 the text "1"; a seed has 63 bits and no sign."""
    assert 0 <= keys.seed_of(*parts) < 2**63
    assert keys.seed_of(*parts) != keys.seed_of("".join(str(part) for part in parts))
    assert keys.seed_of(*parts) != keys.seed_of(*parts, "")


def test_seeds_spread_evenly() -> None:
    """Neighbouring keys give seeds that have nothing to do with each other."""
    seeds = np.array([keys.seed_of("synthesis", 1, "voice", "train", number) for number in range(4000)], dtype=np.float64) / 2.0**63
    assert np.abs(np.histogram(seeds, bins=10, range=(0, 1))[0] - 400).max() < 100
    assert abs(np.corrcoef(seeds[:-1], seeds[1:])[0, 1]) < 0.06


def stable_values() -> dict[str, Any]:
    """Digests, seeds and ranks of fixed keys."""
    return {
        "digest of nothing": keys.digest(None),
        "digest": keys.digest({"b": [1, 2.5, None, True], "a": "ñ 日本語"}),
        "long digest": keys.digest(["clip", {"x": 1}], 32),
        "seed": keys.seed_of("synthesis", 1, "voice", "train", 0),
        "rank": keys.rank_of("split", 1, "ami-FEE078"),
    }


def test_keys_have_not_drifted() -> None:
    """Literal values, as BLAKE2b of the canonical JSON gives them: if one changes, every dataset ever built does."""
    assert stable_values() == {
        "digest of nothing": "7376b2cbfa0ad26e",
        "digest": "51a43f8df095c47b",
        "long digest": "a4f41945ea4b823c3cca2af5c4f50996",
        "seed": 5590272422048190913,
        "rank": "a4ff2db50e2f28db",
    }
    text = '{"a":"ñ 日本語","b":[1,2.5,null,true]}'
    assert keys.digest({"b": [1, 2.5, None, True], "a": "ñ 日本語"}) == hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def planned_values() -> list[Any]:
    """Splits, first candidates and digest of a plan with real and synthetic sources."""
    made = plan.make(with_splits(DEFAULT), real_sources())
    shard = made.shards[0]
    return [dict(made.split_of), [[pair.source.source_id for pair in take(shard, cell, 3)] for cell, _ in shard.wanted], made.digest]


@pytest.mark.slow
def test_hash_seed_is_nowhere_in_it() -> None:
    """PYTHONHASHSEED 0, 1 and random: the same digests, seeds, splits, candidates and plan."""
    code = (
        "import sys; sys.path.insert(0, 'tests'); import json, test_plan as t; print(json.dumps([t.stable_values(), t.planned_values()]))"
    )
    found = []
    for seed in ("0", "1", "random"):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]
    assert found[0] == [stable_values(), planned_values()]
