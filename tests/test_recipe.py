"""Recipes: every shipped one loads; a wrong one is refused with all its faults; the digest is of the values, not their order."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import recipe
from builder.dimensions import DIMENSIONS
from builder.errors import RecipeError
from builder.recipe import Recipe

RECIPES = Path(__file__).parent.parent / "recipes"
SHIPPED = sorted(path.name for path in RECIPES.glob("*.yaml") if path.name != "base.yaml")

PITCH = """\
include: base.yaml
dimension: pitch
sources:
  - {kind: voice}
"""

RELEASE = """\
include: base.yaml
dimensions: [pitch.yaml, loudness.yaml]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped recipes, to write wrong ones beside."""
    return shutil.copytree(RECIPES, tmp_path / "recipes")


def faults(folder: Path, content: str | bytes, name: str = "x.yaml") -> list[str]:
    """Faults of a recipe with this content, paths relative to the folder."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RecipeError) as caught:
        recipe.load(path)
    assert caught.value.faults, "an error without a fault says nothing"
    count = len(caught.value.faults)
    head, *lines = str(caught.value).split("\n")
    assert head == f"{count} fault{'s' if count > 1 else ''} in the recipe:"
    assert lines == [f"  {fault}" for fault in caught.value.faults]
    return [fault.replace(f"{folder}/", "") for fault in caught.value.faults]


def loaded(folder: Path, content: str) -> Recipe:
    """The recipe with this content."""
    path = folder / "x.yaml"
    path.write_text(content, encoding="utf-8")
    return recipe.load(path)


# -- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clips", [1, 24, 25, 12_000])
def test_clips_are_spread_evenly_over_the_cells(folder: Path, clips: int) -> None:
    """At least as many clips as asked for, less than a pair per cell too many, whatever a source asks; other splits keep theirs."""
    sources = "  - {kind: voice, pairs_per_cell: {train: 77, test: 5}}\n  - {kind: tone}\n"
    (part,) = loaded(folder, PITCH.replace("  - {kind: voice}\n", sources) + f"clips: {{train: {clips}}}\n").dimensions
    n_cells = 2 * len(part.tiers) * len(part.curves)
    assert clips <= 2 * part.n_pairs_in("train") < clips + 2 * n_cells
    assert [part.pairs(rule, "test") for rule in part.sources] == [5, part.pairs_per_cell["test"]]


def test_all_is_every_dimension_with_its_own_recipe(folder: Path) -> None:
    """`dimensions: all` lists what DIMENSIONS lists, so that adding a dimension edits no release."""
    checked = loaded(folder, "include: base.yaml\ndimensions: all\n")
    assert [part.dimension for part in checked.dimensions] == [dimension.name for dimension in DIMENSIONS]
    for name in ("default", "smoke", "synthesis", "release"):
        assert "dimensions: all\n" in (RECIPES / f"{name}.yaml").read_text()


def test_the_release_is_of_full_size() -> None:
    """At least 12,000 train and 2,400 test clips in every dimension."""
    for part in recipe.load(RECIPES / "release.yaml").dimensions:
        assert 2 * part.n_pairs_in("train") >= 12_000
        assert 2 * part.n_pairs_in("test") >= 2_400


def test_the_papers_cells() -> None:
    """Nine categories under the original's names, three tiers under its names, four curves, real voices only."""
    checked = recipe.load(RECIPES / "paper.yaml")
    assert {part.spec.paper_category for part in checked.dimensions} == {
        "speaking_speed", "voice_pitch", "volume", "audio_distortion", "audio_roughness", "background_noise", "echo", "voice_clarity",
        "voice_vibration",
    }  # fmt: skip
    for part in checked.dimensions:
        assert tuple(part.tiers) == ("low", "mid", "high")
        assert part.curves == ("linear", "ease_in", "ease_out", "step")
        assert {rule.kind for rule in part.sources} <= set(recipe.SPEECH_KINDS)


def test_beeps_are_tones_and_need_no_corpus() -> None:
    """Pitch, loudness, noise and tremolo on tones, with no corpus to fetch."""
    checked = recipe.load(RECIPES / "beep.yaml")
    assert {part.dimension for part in checked.dimensions} == {"pitch", "loudness", "noise", "tremolo"}
    assert {rule.kind for part in checked.dimensions for rule in part.sources} == {"tone"}
    assert checked.speech.corpus is None


# -- what ships -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_recipe_loads(name: str) -> None:
    """Every recipe in `recipes/` is right, whether of a release or of one dimension."""
    checked = recipe.load(RECIPES / name)
    assert checked.dimensions
    assert all(part.tiers_on(rule) for part in checked.dimensions for rule in part.sources) or name == "smoke.yaml"


def test_each_dimension_has_its_recipe() -> None:
    """A dimension without a recipe of its name can't be built alone."""
    assert {name for name in recipe.BY_NAME if f"{name}.yaml" not in SHIPPED} == set()


def test_synthesis_recipe_needs_no_corpus() -> None:
    """The recipe that is offered when no corpus can be had doesn't name one, and has no real kinds."""
    checked = recipe.load(RECIPES / "synthesis.yaml")
    assert checked.speech.corpus is None
    assert not {rule.kind for part in checked.dimensions for rule in part.sources} & set(recipe.SPEECH_KINDS)


# -- all faults at once -----------------------------------------------------------------------------------------------


def test_typos_of_a_release_are_all_named_with_line_and_nearest_key(folder: Path) -> None:
    """Unknown keys at the top, in `margins`, `isolation`, `speech` and `splits` come in one error."""
    content = RELEASE + (
        "sede: 3\n"
        "margins:\n  min_contrst_jnd: 1.0\n"
        "isolation: {max_leek_jnd: 0.5}\n"
        "speech:\n  max_s: 4.0\n  max_pauze_s: 0.5\n"
        "splits:\n  train: {share: 0.45, min_speekers: 2}\n"
    )
    assert set(faults(folder, content)) == {
        "x.yaml:3: sede: unknown key (did you mean 'seed'?)",
        "x.yaml:5: margins.min_contrst_jnd: unknown key (did you mean 'min_contrast_jnd'?)",
        "x.yaml:6: isolation.max_leek_jnd: unknown key (did you mean 'max_leak_jnd'?)",
        "x.yaml:9: speech.max_pauze_s: unknown key (did you mean 'max_pause_s'?)",
        "x.yaml:11: splits.train.min_speekers: unknown key (did you mean 'min_speakers'?)",
    }


def test_typos_in_sources_are_all_named_and_nothing_else(folder: Path) -> None:
    """A fault inside a list is told by its place, without a second fault that only follows from it."""
    content = (
        "include: base.yaml\ndimension: pitch\nmargin: {}\nsources:\n"
        "  - {kind: voice, movment: 0.5}\n"
        "  - kind: tone\n    pairs_per_cel: {train: 2}\n"
    )
    assert set(faults(folder, content)) == {
        "x.yaml:3: margin: unknown key (did you mean 'margins'?)",
        "x.yaml:5: sources.0.movment: unknown key (did you mean 'movement'?)",
        "x.yaml:7: sources.1.pairs_per_cel: unknown key (did you mean 'pairs_per_cell'?)",
    }


def test_a_key_like_no_other_gets_no_suggestion(folder: Path) -> None:
    """A wild guess would send people astray."""
    assert faults(folder, PITCH + "qwxz: 1\n") == ["x.yaml:5: qwxz: unknown key"]


def test_faults_of_several_files_come_together(folder: Path) -> None:
    """Faults in an include and in a listed dimension recipe are told with those in the release itself, each at its own file."""
    (folder / "mine.yaml").write_text((folder / "base.yaml").read_text() + "licnse: MIT\n")
    (folder / "part.yaml").write_text("include: base.yaml\ndimension: pitch\nsources:\n  - {kind: voice}\nmargins: {min_vald: 0.5}\n")
    found = faults(folder, "include: mine.yaml\ndimensions: [part.yaml, loudness.yaml]\nsede: 1\n")
    last = len((folder / "mine.yaml").read_text().splitlines())
    assert set(found) == {
        "x.yaml:3: sede: unknown key (did you mean 'seed'?)",
        f"mine.yaml:{last}: licnse: unknown key (did you mean 'licence'?)",
        "part.yaml:5: margins.min_vald: unknown key (did you mean 'min_valid'?)",
    }


def test_a_typo_in_a_dimension_file_counts_also_where_the_release_overrides(folder: Path) -> None:
    """Every fault of every file that was read: also in keys of a dimension recipe that only count when it's built alone."""
    (folder / "part.yaml").write_text(PITCH + "speech: {min_ss: 2.0}\n")
    assert faults(folder, "include: base.yaml\ndimensions: [part.yaml]\n") == [
        "part.yaml:5: speech.min_ss: unknown key (did you mean 'min_s'?)"
    ]


def test_wrong_types_are_told_with_what_was_found(folder: Path) -> None:
    """Nothing is coerced: text isn't a number, true isn't one, a fraction isn't a count."""
    content = RELEASE + (
        "seed: one\n"
        "sample_rate_hz: 16000.5\n"
        "version: 1.0\n"
        "tiers: [2.0]\n"
        "curves: linear\n"
        "max_pairs_per_shard: true\n"
        "margins:\n  min_valid: '0.6'\n"
    )
    found = set(faults(folder, content))
    wanted = {
        ("x.yaml:3: seed: ", "(found 'one')"),
        ("x.yaml:4: sample_rate_hz: ", "(found 16000.5)"),
        ("x.yaml:5: version: ", "(found 1.0)"),
        ("x.yaml:6: tiers: ", "(found [2.0])"),
        ("x.yaml:7: curves: ", "(found 'linear')"),
        ("x.yaml:8: max_pairs_per_shard: ", "(found True)"),
        ("x.yaml:10: margins.min_valid: ", "(found '0.6')"),
    }
    missing = {want for want in wanted if not any(fault.startswith(want[0]) and fault.endswith(want[1]) for fault in found)}
    assert (missing, len(found)) == (set(), len(wanted))


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("seed: -1", "seed"),
        ("seed: 9223372036854775808", "seed"),
        ("sample_rate_hz: 8000", "sample_rate_hz"),
        ("name: Vocal Grad", "name"),
        ("version: 1.0.0-rc1", "version"),
        ("curves: []", "curves"),
        ("tiers: {hard: 0.5}", "tiers.hard"),
        ("tiers: {hard: .nan}", "tiers.hard"),
        ("tiers: {hard: .inf}", "tiers.hard"),
        ("tiers: {}", "tiers"),
        ("bases: []", "bases"),
        ("bases: [guessed]", "bases.0"),
        ("pairs_per_cell: {train: -1}", "pairs_per_cell.train"),
        ("pairs_per_cell: {tset: 1}", "pairs_per_cell.tset"),
        ("max_pairs_per_shard: 0", "max_pairs_per_shard"),
        ("margins: {min_valid: 1.5}", "margins.min_valid"),
        ("margins: {min_contrast_jnd: 0.5}", "margins.min_contrast_jnd"),
        ("margins: {max_gain: .inf}", "margins.max_gain"),
        ("isolation: {max_leak_jnd: 0.0}", "isolation.max_leak_jnd"),
        ("speech: {min_rate_hz: 4000}", "speech.min_rate_hz"),
        ("speech: {min_snr_db: .nan}", "speech.min_snr_db"),
        ("speech: {channels: stereo}", "speech.channels"),
        ("splits: {train: {share: 1.5}}", "splits.train.share"),
    ],
)
def test_a_value_out_of_range_is_refused_at_its_line(folder: Path, line: str, key: str) -> None:
    """Limits hold, for not-a-number and infinity too, and what would build nothing or label nothing is no recipe."""
    found = faults(folder, PITCH + line + "\n")
    assert len(found) == 1
    assert found[0].startswith(f"x.yaml:5: {key}")


def test_cross_checks_say_what_to_change(folder: Path) -> None:
    """Values that are right alone and wrong together."""
    assert faults(folder, PITCH + "speech: {min_s: 3.0, max_s: 4.0}\n") == [
        "x.yaml:5: speech: max_s must be at least 1.5 times min_s, or speech can't be cut at pauses"
    ]
    assert faults(folder, PITCH + "splits: {train: {share: 0.9}}\n")[0].endswith("splits: the shares must add up to 1")
    assert faults(folder, PITCH.replace("voice", "speech") + "speech: {corpus: null}\n")[0].endswith(
        "speech.corpus: pitch: sources of kind speech need a corpus; name one, or list under kinds what to build"
    )
    (found,) = faults(folder, RELEASE + "speech: {corpus: corpora/nix.yaml}\n")
    assert found == "x.yaml:3: speech.corpus: no file corpora/nix.yaml beside x.yaml"


# -- names ------------------------------------------------------------------------------------------------------------


def test_unknown_names_get_the_nearest_and_the_known(folder: Path) -> None:
    """A dimension, curve, split, tier or kind that doesn't exist."""
    assert faults(folder, PITCH.replace("pitch", "pich")) == [
        f"x.yaml:2: dimension: unknown dimension 'pich' (did you mean 'pitch'?); known: {', '.join(recipe.BY_NAME)}"
    ]
    assert faults(folder, PITCH + "curves: [linear, easy_in]\n") == [
        "x.yaml:5: curves: unknown curve 'easy_in' (did you mean 'ease_in'?); known: linear, ease_in, ease_out, step"
    ]
    assert faults(folder, PITCH + "splits: {tests: {share: 0.1}}\n") == [
        "x.yaml:5: splits: unknown split 'tests' (did you mean 'test'?); known: train, validation, test"
    ]


def test_an_unknown_tier_of_a_source_gets_the_nearest_and_the_known(folder: Path) -> None:
    """The fault is at the source's line and reads as a sentence."""
    content = PITCH.replace("{kind: voice}", "{kind: voice, tiers: [hrad]}")
    (found,) = faults(folder, content)
    assert found.startswith("x.yaml:")
    assert "voice: unknown tier 'hrad' (did you mean 'hard'?); known: hard, medium, easy" in found


def test_an_unknown_kind_is_named_with_the_known(folder: Path) -> None:
    """Also when it's under the release's `kinds`, alone or among others."""
    (found,) = faults(folder, PITCH.replace("voice", "vioce"))
    assert found.startswith("x.yaml:4: sources.0.kind: ")
    assert "'voice'" in found
    assert "'vioce'" in found
    (found,) = faults(folder, RELEASE + "kinds: [tone, vioce]\n")
    assert found.startswith("x.yaml:3: kinds.1: ")
    assert "'voice'" in found
    (found,) = faults(folder, RELEASE + "kinds: [vioce]\n")
    assert found.startswith("x.yaml:3: kinds")
    assert "'voice'" in found


def test_flat_is_no_curve_of_a_test_item(folder: Path) -> None:
    """`flat` is for controls: it has no direction."""
    assert faults(folder, PITCH + "curves: [flat]\n") == ["x.yaml:5: curves: unknown curve 'flat'; known: linear, ease_in, ease_out, step"]


def test_a_kind_that_cannot_carry_the_dimension_is_refused(folder: Path) -> None:
    """A noise has no pitch."""
    (found,) = faults(folder, PITCH.replace("voice", "noise"))
    assert found.endswith("sources: noise can't carry pitch; kinds that can: speech, tone, voice, vowels")


def test_a_tier_out_of_reach_is_refused_where_it_is_asked_for(folder: Path) -> None:
    """A source that lists a tier beyond the dimension's span says so, with the limit and the way out."""
    content = PITCH.replace("{kind: voice}", "{kind: speech, tiers: [far]}") + "tiers: {far: 20.0}\n"
    (found,) = faults(folder, content)
    assert found.endswith(
        "sources: speech: tier far needs a span beyond 12 semitones, the most that pitch allows there; leave the tier out"
    )


def test_a_tier_out_of_reach_is_left_out_where_it_is_a_default(folder: Path) -> None:
    """Tiers of the whole recipe hold for the kinds that reach them."""
    (part,) = loaded(
        folder, PITCH.replace("{kind: voice}", "{kind: voice}\n  - {kind: speech}") + "tiers: {near: 2.0, far: 20.0}\n"
    ).dimensions
    assert {rule.kind: part.tiers_on(rule) for rule in part.sources} == {"voice": ("near", "far"), "speech": ("near",)}


def test_nothing_in_reach_is_no_recipe(folder: Path) -> None:
    """A source without a single tier would build nothing and end well."""
    (found,) = faults(folder, PITCH + "tiers: {far: 1000.0}\n")
    assert "tier" in found
    (found,) = faults(folder, PITCH.replace("{kind: voice}", "{kind: voice, tiers: []}"))
    assert "sources" in found
    assert "tier" in found


def test_no_pairs_at_all_is_no_recipe(folder: Path) -> None:
    """Counts of zero everywhere would build nothing and end well."""
    none = "{train: 0, validation: 0, test: 0}"
    (found,) = faults(folder, PITCH + f"pairs_per_cell: {none}\ncontrols_per_kind: {none}\n")
    assert "pairs_per_cell" in found


# -- identical entries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (RELEASE.replace("loudness", "pitch"), "dimensions.1: pitch.yaml is listed twice"),
        (PITCH + "  - {kind: voice}\n", "sources: kind of source 'voice' is listed twice"),
        (PITCH + "  - {kind: voice, movement: 0.5}\n", "sources: kind of source 'voice' is listed twice"),
        (PITCH + "curves: [linear, step, linear]\n", "curves: curve 'linear' is listed twice"),
        (PITCH.replace("{kind: voice}", "{kind: voice, tiers: [hard, easy, hard]}"), "twice"),
        (PITCH + "bases: [heard, parts, heard]\n", "twice"),
        (RELEASE + "kinds: [voice, voice]\n", "twice"),
    ],
)
def test_identical_entries_are_an_error(folder: Path, content: str, what: str) -> None:
    """Two entries that say the same are neither merged in silence nor built twice."""
    (found,) = faults(folder, content)
    assert found.endswith(what)


def test_two_files_of_one_dimension_are_an_error(folder: Path) -> None:
    """A dimension under two file names is still listed twice."""
    (folder / "other.yaml").write_text(PITCH)
    (found,) = faults(folder, "include: base.yaml\ndimensions: [pitch.yaml, other.yaml]\n")
    assert found.endswith("dimensions.1: dimension pitch is listed twice")


# -- files that aren't recipes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            PITCH + "name: !!python/object/apply:os.system ['touch pwned']\n",
            "x.yaml:5: tag 'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        (PITCH + "name: !!str vocalgrad\n", "x.yaml:5: tag 'tag:yaml.org,2002:str': values only, no tags"),
        (PITCH + "margins: !mine {}\n", "x.yaml:5: tag '!mine': values only, no tags"),
        (PITCH + "name: &n vocalgrad\nlicence: *n\n", "x.yaml:6: alias *n: write the value out"),
        (PITCH + "seed: 1\nseed: 2\n", "x.yaml:6: seed: given twice"),
        (PITCH + "seed: 1\n'seed': 2\n", "x.yaml:6: seed: given twice"),
        (PITCH + "margins: {min_valid: 0.5, min_valid: 0.6}\n", "x.yaml:5: margins.min_valid: given twice"),
        ("- pitch\n- loudness\n", "x.yaml: a mapping of keys to values is needed"),
        ("pitch\n", "x.yaml: a mapping of keys to values is needed"),
        ("", "x.yaml: a mapping of keys to values is needed"),
        ("# nothing but a comment\n", "x.yaml: a mapping of keys to values is needed"),
        ("{}\n", "x.yaml: a mapping of keys to values is needed; the file is empty"),
        (PITCH.encode() + b"name: caf\xe9\n", "x.yaml: can't be read: not UTF-8 text"),
        (PITCH.encode("utf-16"), "x.yaml: can't be read: not UTF-8 text"),
        (PITCH + "margins:\n\tmin_valid: 0.5\n", "x.yaml:6: not YAML: found character '\\t' that cannot start any token"),
        (PITCH + "margins: {min_valid: 0.5\n", "x.yaml:6: not YAML: expected ',' or '}', but got '<stream end>'"),
        (PITCH + "---\nseed: 2\n", "x.yaml:5: not YAML: but found another document"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_with_its_line(folder: Path, content: str | bytes, expected: str) -> None:
    """Values only: no tags, aliases or double keys; and nothing of the file is ever run."""
    (found,) = faults(folder, content)
    assert found.startswith(expected)
    assert not (Path.cwd() / "pwned").exists()


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (PITCH + "name: vocal\x01grad\n", "x.yaml"),
        (PITCH + "3: 4\n", "x.yaml:5: 3"),
        (PITCH + "? \n: 4\n", "x.yaml:5"),
        (PITCH + "? [a, b]\n: 4\n", "x.yaml:5"),
        (PITCH + "? {a: b}\n: 4\n", "x.yaml:5"),
        (PITCH + "margins: {? [a] : 1}\n", "x.yaml:5"),
        (PITCH + "version: 2026-02-30\n", "x.yaml:5"),
        (PITCH + "seed: 0x_\n", "x.yaml:5"),
        (PITCH + f"seed: {'9' * 6000}\n", "x.yaml:5"),
        (PITCH + f"margins: {'[' * 3000}{']' * 3000}\n", "x.yaml"),
    ],
    ids=["control character", "number", "null", "list", "mapping", "nested", "no such date", "no digits", "huge number", "too deep"],
)
def test_odd_yaml_is_a_fault_not_a_traceback(folder: Path, content: str, hint: str) -> None:
    """What the YAML library chokes on, or reads as a key that no recipe can have, is told like any other fault."""
    assert faults(folder, content)[0].startswith(hint)


def test_a_merge_key_is_refused(folder: Path) -> None:
    """`<<` would bring in values that no line of the recipe's own keys shows."""
    (found,) = faults(folder, PITCH + "<<: {seed: 3}\n")
    assert found.startswith("x.yaml:5: <<")


def test_a_byte_order_mark_is_no_fault(folder: Path) -> None:
    """Editors on Windows write one."""
    assert loaded(folder, "\ufeff" + PITCH).digest == loaded(folder, PITCH).digest


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path as it was given, and why."""
    with pytest.raises(RecipeError) as caught:
        recipe.load(tmp_path / "nix.yaml")
    assert caught.value.faults == [f"{tmp_path}/nix.yaml: there is no such file"]
    with pytest.raises(RecipeError) as caught:
        recipe.load(tmp_path)
    assert caught.value.faults == [f"{tmp_path}: can't be read: Is a directory"]


# -- includes and releases --------------------------------------------------------------------------------------------


def test_an_include_may_not_include(folder: Path) -> None:
    """One level: a reader never has to look further than one file."""
    assert faults(folder, PITCH.replace("base", "loudness"))[0] == "loudness.yaml:1: include: only one level is allowed"


def test_a_missing_include_is_named(folder: Path) -> None:
    """The file that isn't there comes first."""
    assert faults(folder, PITCH.replace("base", "bse"))[0] == "bse.yaml: there is no such file (did you mean 'base.yaml'?)"


def test_an_include_is_one_file_name(folder: Path) -> None:
    """A list of includes is refused at its line."""
    assert faults(folder, PITCH.replace("base.yaml", "[base.yaml]"))[0] == "x.yaml:1: include: one file name is needed"


def test_missing_keys_are_all_named(folder: Path) -> None:
    """Without an include, every key that has no default is asked for."""
    needed = ("tiers", "curves", "pairs_per_cell", "name", "version", "seed", "sample_rate_hz", "licence", "speech", "splits")
    assert set(faults(folder, PITCH.replace("include: base.yaml\n", ""))) == {
        f"x.yaml: {key}: missing: this key is required" for key in needed
    }


def test_a_missing_version_is_named(folder: Path) -> None:
    """A release needs a version."""
    base = (folder / "base.yaml").read_text()
    (folder / "base.yaml").write_text("".join(line for line in base.splitlines(keepends=True) if not line.startswith("version")))
    assert faults(folder, PITCH) == ["x.yaml: version: missing: this key is required"]


def test_a_recipe_is_of_one_dimension_or_of_several(folder: Path) -> None:
    """`dimension` and `dimensions` exclude each other; one is needed."""
    assert faults(folder, PITCH + "dimensions: [pitch.yaml]\n") == [
        "x.yaml:2: dimension: has both dimension and dimensions; a release recipe has the second only"
    ]
    found = faults(folder, "include: base.yaml\n")
    assert "x.yaml: dimension: missing: this key is required" in found


def test_dimensions_is_a_list_of_files(folder: Path) -> None:
    """Not a name, not empty, and each file is there."""
    assert faults(folder, RELEASE.replace("[pitch.yaml, loudness.yaml]", "pitch.yaml")) == [
        "x.yaml:2: dimensions: 'all', or a list of at least one recipe file, is needed"
    ]
    assert faults(folder, RELEASE.replace("loudness", "loudnes")) == ["loudnes.yaml: there is no such file (did you mean 'loudness.yaml'?)"]
    (found,) = faults(folder, RELEASE.replace("[pitch.yaml, loudness.yaml]", "[]"))
    assert found.startswith("x.yaml:2: dimensions: ")


def test_a_release_may_not_list_releases(folder: Path) -> None:
    """Nor itself: the fault names the file that is no recipe of one dimension."""
    for name in ("default.yaml", "x.yaml"):
        assert any(name in fault and "dimension" in fault for fault in faults(folder, f"include: base.yaml\ndimensions: [{name}]\n"))


def test_what_a_release_sets_itself_overrides_its_dimensions(folder: Path) -> None:
    """Own counts, curves and tiers hold for every source, also where a dimension recipe gives a source its own."""
    checked = loaded(
        folder,
        "include: base.yaml\ndimensions: [pitch.yaml, brightness.yaml]\ntiers: {medium: 4.0}\ncurves: [step]\n"
        "pairs_per_cell: {train: 7, validation: 6, test: 5}\nmargins: {min_valid: 0.7}\n",
    )
    for part in checked.dimensions:
        assert (part.tiers, part.curves, part.margins.min_valid) == ({"medium": 4.0}, ("step",), 0.7)
        assert part.margins.max_gain == recipe.load(folder / "pitch.yaml").dimensions[0].margins.max_gain
        for rule in part.sources:
            assert [part.pairs(rule, split) for split in recipe.SPLITS] == [7, 6, 5]
            assert part.tiers_on(rule) == ("medium",)


def test_what_a_release_includes_does_not_override_its_dimensions(folder: Path) -> None:
    """Defaults stay defaults: the counts of `base.yaml` don't replace those that pitch gives its speech."""
    alone, together = recipe.load(folder / "pitch.yaml").dimensions[0], loaded(folder, RELEASE).dimensions[0]
    assert together == alone


def test_a_release_never_adds_a_tier_that_a_source_leaves_out(folder: Path) -> None:
    """Noise carries two tiers of brightness by its recipe; a release with the third tier alone has none for it."""
    checked = loaded(folder, "include: base.yaml\ndimensions: [brightness.yaml]\ntiers: {easy: 8.0}\n")
    built = {rule.kind: part.tiers_on(rule) for part in checked.dimensions for rule in part.sources}
    assert built.pop("noise", ()) == ()
    assert built == {"speech": (), "voice": ("easy",)}


def test_kinds_keeps_what_is_listed(folder: Path) -> None:
    """Only the listed kinds are left of each dimension; a dimension without any is left out."""
    checked = loaded(folder, "include: base.yaml\ndimensions: [pitch.yaml, loudness.yaml, tempo.yaml]\nkinds: [tone, noise]\n")
    assert {part.dimension: [rule.kind for rule in part.sources] for part in checked.dimensions} == {
        "pitch": ["tone"],
        "loudness": ["tone", "noise"],
    }


def test_kinds_that_leave_nothing_are_refused(folder: Path) -> None:
    """Nothing to build is never a recipe."""
    (found,) = faults(folder, RELEASE + "kinds: [pulses]\n")
    assert found.endswith("kinds: no dimension has a source of kind pulses")
    assert faults(folder, RELEASE + "kinds: []\n")[0].startswith("x.yaml")


# -- seed and digest --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**63 - 1))
def test_a_seed_from_outside_changes_the_seed_alone(seed: int) -> None:
    """Everything but seed and release tag is the recipe's; the digest is of the recipe without its seed."""
    own, given_seed = recipe.load(RECIPES / "synthesis.yaml"), recipe.load(RECIPES / "synthesis.yaml", seed)
    assert given_seed.model_copy(update={"seed": own.seed}) == own
    assert (given_seed.seed, given_seed.release, given_seed.digest) == (seed, f"{own.version}+seed.{seed}", own.digest)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_from_outside_has_the_same_limits(seed: int) -> None:
    """The message tells the seed that was given."""
    with pytest.raises(RecipeError, match=rf"seed: must be .* \(found {seed}\)"):
        recipe.load(RECIPES / "synthesis.yaml", seed)


def whole(folder: Path) -> dict[str, Any]:
    """Every key that a recipe of one dimension can have, written out."""
    checked = recipe.load(folder / "pitch.yaml").model_dump(mode="json")
    (part,) = checked.pop("dimensions")
    part["clips"] = {"train": 24}
    for rule in part["sources"]:
        rule["tiers"] = ["hard", "medium"]
        rule["pairs_per_cell"] = {"train": 3, "validation": 2, "test": 1}
    return {**checked, **part, "kinds": ["speech", "voice", "tone"]}


def leaves(values: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values that aren't containers."""
    if isinstance(values, (dict, list)):
        for key in values if isinstance(values, dict) else range(len(values)):
            yield from leaves(values[key], (*at, key))
    else:
        yield at


OTHER: dict[str, Any] = {
    "name": "other",
    "version": "9.9.9",
    "licence": "MIT",
    "corpus": "corpora/other.yaml",
    "channels": "mono",
    "min_s": 1.75,
    "max_s": 5.0,
    "dimension": "loudness",
    "bases": "difference",
    "min_contrast_jnd": 1.5,
    "max_gain": 1.5,
    "max_clipped": 5,
    "min_level_dbfs": -45.5,
    "max_cuts_per_speaker": 7,
}
"""Another valid value for keys whose type doesn't suggest one."""


def other_value(values: Any, at: tuple[Any, ...]) -> dict[str, Any]:
    """A copy with the value at a path replaced by another valid one; shares and lists of names are kept consistent."""
    changed = copy.deepcopy(values)
    inner: Any = changed
    for key in at[:-1]:
        inner = inner[key]
    name = next(part for part in reversed(at) if isinstance(part, str))
    if name == "share":
        last = next(split for split in changed["splits"] if split != at[1])
        changed["splits"][last]["share"] -= 0.05
        inner["share"] += 0.05
    elif name == "bases":
        changed["bases"] = ["heard", "parts"] if len(values["bases"]) > 2 else ["heard", "parts", "difference"]
    elif name in ("curves", "tiers") and isinstance(at[-1], int):
        inner.pop(at[-1])
    elif name == "kinds" or name == "kind":
        kind = inner.pop(at[-1])
        changed["kinds"] = [other for other in ("speech", "voice", "tone") if other != kind]
        changed["sources"] = [rule for rule in changed["sources"] if rule.get("kind") not in (kind, None)]
    elif name in OTHER:
        inner[at[-1]] = OTHER[name]
    elif isinstance(inner[at[-1]], float):
        inner[at[-1]] = inner[at[-1]] - 0.0625 if inner[at[-1]] >= 0.1 else 0.0625
        if name in ("hard", "medium", "easy"):
            inner[at[-1]] += 0.125
    else:
        inner[at[-1]] += 1
    if name == "dimension":
        changed["sources"] = [rule for rule in changed["sources"] if rule["kind"] != "tone"]
    return changed


def test_every_value_is_in_the_digest(folder: Path) -> None:
    """Changing any one value but the seed changes the digest, and no two changes give the same."""
    (folder / "corpora" / "other.yaml").write_text("name: other\n")
    values = whole(folder)
    values["speech"]["min_rate_hz"] = 48_000
    digests = {(): loaded(folder, yaml.safe_dump(values)).digest}
    for at in leaves(values):
        if at != ("seed",):
            digests[at] = loaded(folder, yaml.safe_dump(other_value(values, at))).digest
    names = {part for at in digests for part in at if isinstance(part, str)}
    fields = {*Recipe.model_fields, *recipe.DimensionRecipe.model_fields, *recipe.SpeechRule.model_fields, *recipe.SourceRule.model_fields}
    fields |= {*recipe.MarginRule.model_fields, *recipe.IsolationRule.model_fields, *recipe.SplitRule.model_fields}
    assert fields - names == {"seed", "dimensions"}, "a key of a recipe isn't tried here"
    clashes = {at for at in digests if list(digests.values()).count(digests[at]) > 1}
    assert {at for at in clashes if at[:1] not in (("kinds",), ("sources",), ("bases",))} == set()
    assert digests[()] not in [digests[at] for at in digests if at]


def reordered(value: Any, shuffle: Callable[[list[Any]], None]) -> Any:
    """The same values with the keys of every mapping in another order."""
    if isinstance(value, dict):
        keys = list(value)
        shuffle(keys)
        return {key: reordered(value[key], shuffle) for key in keys}
    return [reordered(item, shuffle) for item in value] if isinstance(value, list) else value


def test_key_order_is_not_in_the_digest(folder: Path) -> None:
    """The same values in any order of keys, in block or flow style, with or without an include, are the same recipe."""
    values = whole(folder)
    wanted = loaded(folder, yaml.safe_dump(values, sort_keys=False)).digest
    for seed in range(5):
        mixed = reordered(values, random.Random(seed).shuffle)
        assert loaded(folder, yaml.safe_dump(mixed, sort_keys=False, default_flow_style=bool(seed % 2))).digest == wanted
    (folder / "half.yaml").write_text(yaml.safe_dump({key: values[key] for key in list(values)[:8]}))
    rest = {"include": "half.yaml", **{key: values[key] for key in list(values)[8:]}}
    assert loaded(folder, yaml.safe_dump(rest)).digest == wanted


def test_where_a_recipe_lies_is_not_in_the_digest(tmp_path: Path) -> None:
    """The same files elsewhere are the same recipe."""
    elsewhere = shutil.copytree(RECIPES, tmp_path / "some where" / "ñ 日本語")
    for name in SHIPPED:
        assert recipe.load(elsewhere / name).digest == recipe.load(RECIPES / name).digest
