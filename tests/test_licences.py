"""Licences: which can be in one dataset, with the clause that forbids others, before anything is rendered; and what a card says of them."""

from __future__ import annotations

import csv
import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import soundfile
import yaml
from hypothesis import given
from hypothesis import strategies as st

from builder import corpora, licences, pipeline, recipe
from builder.__main__ import main
from builder.errors import LicencesForbid, RecipeError
from builder.licences import HUB, KNOWN, MIXED, Terms
from builder.recipe import Recipe
from builder.recordings import tape
from builder.records import FloatArray
from builder.sources import Gathered
from builder.workers import Local

RECIPES = Path(__file__).parent.parent / "recipes"
RATE_HZ = 16_000
names = st.sets(st.sampled_from(sorted(KNOWN)), min_size=1, max_size=5)

RECIPE = """\
include: base.yaml
dimension: loudness
speech: {corpus: corpus.yaml}
splits: {train: {share: 0.4}, validation: {share: 0.3}, test: {share: 0.3}}
tiers: {medium: 4.0}
curves: [linear]
pairs_per_cell: {train: 1, validation: 1, test: 1}
controls_per_kind: {train: 0, validation: 0, test: 0}
sources:
  - {kind: speech}
"""


def combined(*found: str, declared: str = MIXED, stated: Mapping[str, Terms] | None = None) -> tuple[str, list[str]]:
    """What licences give together; each has its own name as an example."""
    return licences.combine({name: f"of {name}" for name in found}, licences.known_with(stated or {}), declared)


# -- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "licence"),
    [
        (("CC-BY-4.0",), "CC-BY-4.0"),
        (("CC0-1.0", "CC-BY-4.0", "MIT", "BSD-2-Clause"), MIXED),
        (("CC-BY-SA-4.0", "CC-BY-4.0", "CC0-1.0"), MIXED),
        (("CC-BY-SA-3.0", "CC-BY-SA-4.0"), MIXED),
        (("CC-BY-NC-4.0", "CC-BY-4.0"), MIXED),
        (("CC-BY-NC-SA-4.0", "CC-BY-NC-4.0", "CC-BY-4.0"), MIXED),
        (("CC-BY-NC-SA-4.0",), "CC-BY-NC-SA-4.0"),
    ],
)
def test_licences_that_go_together(found: tuple[str, ...], licence: str) -> None:
    """One licence is the dataset's; several that allow it are each row's own."""
    assert combined(*found) == (licence, [])


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            ("CC-BY-SA-4.0", "CC-BY-NC-SA-4.0"),
            [
                "of CC-BY-SA-4.0: CC-BY-NC-SA-4.0 asks for the same licence (section 3(b)) for what it becomes part of, but CC-BY-SA-4.0 "
                "asks for the same licence (section 3(b)): CC-BY-SA-4.0, not CC-BY-NC-SA-4.0"
            ],
        ),
        (
            ("CC-BY-SA-4.0", "CC-BY-NC-4.0"),
            [
                "of CC-BY-NC-4.0: CC-BY-SA-4.0 asks for the same licence (section 3(b)) for what it becomes part of, but CC-BY-NC-4.0 "
                "allows no commercial use (section 2(a)(1)), CC-BY-SA-4.0 does"
            ],
        ),
        (
            ("CC-BY-ND-4.0", "CC0-1.0"),
            ["of CC-BY-ND-4.0: CC-BY-ND-4.0 allows no derivatives to be shared (section 2(a)(1)), and every clip is one"],
        ),
        (
            ("CC-BY-SA-1.0", "CC-BY-SA-2.0"),
            [
                "of CC-BY-SA-2.0: CC-BY-SA-1.0 asks for the same licence for what it becomes part of, but CC-BY-SA-2.0 asks for the same "
                "licence: CC-BY-SA-2.0 or CC-BY-SA-2.5 or CC-BY-SA-3.0 or CC-BY-SA-4.0, not CC-BY-SA-1.0"
            ],
        ),
    ],
)
def test_licences_that_forbid_each_other(found: tuple[str, ...], lines: list[str]) -> None:
    """Each line names an example, both licences and the clause; no conflict is told twice."""
    for order in itertools.permutations(found):
        assert combined(*order)[1] == lines


@pytest.mark.parametrize(
    ("found", "declared", "line"),
    [
        (("CC-BY-NC-4.0",), "CC-BY-4.0", "CC-BY-NC-4.0 allows no commercial use (section 2(a)(1)), CC-BY-4.0 does"),
        (("CC-BY-NC-4.0",), "MIT", "CC-BY-NC-4.0 allows no commercial use (section 2(a)(1)), MIT does"),
        (("CC-BY-4.0", "CC0-1.0"), "CC0-1.0", "CC-BY-4.0 asks for attribution (section 3(a)), CC0-1.0 doesn't"),
        (("CC-BY-SA-4.0",), "CC-BY-4.0", "CC-BY-SA-4.0 asks for the same licence (section 3(b)): CC-BY-SA-4.0, not CC-BY-4.0"),
    ],
)
def test_a_declared_licence_must_be_one_that_the_sources_allow(found: tuple[str, ...], declared: str, line: str) -> None:
    """What a recipe says that the dataset is published under, no source may forbid."""
    assert combined(*found, declared=declared) == (declared, [f"of {found[0]}: {line}"])
    assert combined("CC0-1.0", declared=declared) == (declared, [])


def test_a_declared_licence_that_all_sources_allow_is_the_datasets() -> None:
    """Rows in the public domain, with attribution, and under an earlier version can be published as CC BY-SA 4.0."""
    assert combined("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-3.0", declared="CC-BY-SA-4.0") == ("CC-BY-SA-4.0", [])


@given(found=names)
def test_a_dataset_with_a_free_sound_more_is_as_free(found: set[str]) -> None:
    """CC0 adds no refusal, whatever else is there; what forbids derivatives is refused in any company, and nothing else alone."""
    refused = combined(*found)[1]
    assert combined(*found, "CC0-1.0")[1] == refused
    for name in found:
        bound = "ND" in name
        assert bool(combined(name)[1]) == bound
        assert any(line.startswith(f"of {name}: ") for line in refused) or not bound


@given(found=names, more=names)
def test_what_is_forbidden_stays_forbidden(found: set[str], more: set[str]) -> None:
    """More licences never make a mix allowed that wasn't."""
    assert set(combined(*found)[1]) <= set(combined(*found, *more)[1])


@given(found=names)
def test_what_may_be_mixed_has_a_licence_to_mix_under(found: set[str]) -> None:
    """If there's no refusal and someone asks for the same licence, one of the licences that are asked for suits every source."""
    if not combined(*found)[1]:
        asked = {target for name in found for target in KNOWN[name].share_alike}
        assert not asked or any(combined(*found, declared=target)[1] == [] for target in asked)


def test_an_unknown_licence_is_told_with_the_nearest() -> None:
    """No term is guessed: an unknown name is refused until it's corrected or its terms are stated."""
    assert combined("CC-BY-40", "CC0-1.0") == (
        MIXED,
        [
            "of CC-BY-40: 'CC-BY-40' isn't a licence whose terms are known (did you mean 'CC-BY-4.0'?): write its SPDX identifier, or "
            "state its terms under `licences` of the corpus recipe"
        ],
    )
    free = Terms(terms="do what you like", derivatives=True, commercial=True, attribution=False)
    bound = free.model_copy(update={"commercial": False})
    assert combined("LicenseRef-Mine", "CC0-1.0", stated={"LicenseRef-Mine": free}) == (MIXED, [])
    assert combined("LicenseRef-Mine", declared="MIT", stated={"LicenseRef-Mine": bound})[1] == [
        "of LicenseRef-Mine: LicenseRef-Mine allows no commercial use, MIT does"
    ]


def test_the_hubs_words_are_only_for_what_can_be_published() -> None:
    """Every licence that allows derivatives has front matter; those that the Hub has no word for are `other` with a name and a link."""
    assert set(HUB) <= {name for name, licence in KNOWN.items() if licence.derivatives}
    assert licences.on_card("CC-BY-4.0") == {"license": "cc-by-4.0"}
    assert licences.on_card("CC-BY-SA-1.0") == {"license": "other", "license_name": "cc-by-sa-1.0", "license_link": "ATTRIBUTION.md"}
    assert licences.on_card(MIXED) == {"license": "other", "license_name": "mixed-per-row", "license_link": "ATTRIBUTION.md"}


# -- recipes and corpora ----------------------------------------------------------------------------------------------


def test_the_shipped_corpus_states_all_its_terms() -> None:
    """Every licence in it is known or stated, none forbids another, and no stated one is unused."""
    corpus = corpora.load(RECIPES / "corpora" / "embedded.yaml")
    used = {recording.licence for recording in corpus.recordings}
    assert combined(*used, "CC0-1.0", stated=corpus.licences) == (MIXED, [])
    assert set(corpus.licences) == used - set(KNOWN)


def test_a_misspelt_licence_of_a_recipe_is_a_fault(tmp_path: Path) -> None:
    """With its line and the nearest known one."""
    shutil.copy(RECIPES / "base.yaml", tmp_path)
    (tmp_path / "x.yaml").write_text(RECIPE.replace("corpus.yaml", "null") + "licence: cc-by-4.0\n", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"x\.yaml:11: licence: unknown licence 'cc-by-4\.0' \(did you mean 'CC-BY-4\.0'\?\)"):
        recipe.load(tmp_path / "x.yaml")


def test_a_corpus_cannot_restate_a_known_licence(tmp_path: Path) -> None:
    """The terms of MIT are MIT's."""
    (tmp_path / "audio").mkdir()
    (tmp_path / "c.yaml").write_text(
        "name: n\nfiles:\n  - {folder: audio, table: t.csv}\nlicences:\n  MIT: {terms: mine, derivatives: true, commercial: false}\n"
    )
    with pytest.raises(RecipeError, match=r"the terms of MIT are known; state only those of others, such as LicenseRef-NAME"):
        corpora.load(tmp_path / "c.yaml")


# -- a build ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def voices(real: Gathered, default_recipe: Recipe) -> dict[str, FloatArray]:
    """Whole real recordings of three speakers."""
    wanted = {"arctic_a0007.wav": "awb", "arctic_a0009.wav": "slt", "61-70968-0000.flac": "ls61"}
    corpus = real.corpora["embedded"]
    return {
        wanted[Path(recording.member).name]: tape(corpus, recording, default_recipe.speech, RATE_HZ).read().samples
        for recording in corpus.recordings
        if Path(recording.member).name in wanted
    }


def recipe_with(folder: Path, voices: Mapping[str, FloatArray], *terms: str, licence: str = MIXED) -> Path:
    """A recipe of three pairs on three speakers with a licence each."""
    (folder / "audio").mkdir(parents=True)
    shutil.copy(RECIPES / "base.yaml", folder)
    with (folder / "audio" / "t.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, corpora.TABLE_COLUMNS, restval="")
        writer.writeheader()
        for (name, samples), term, sex in zip(voices.items(), terms, ("f", "m", ""), strict=True):
            soundfile.write(folder / "audio" / f"{name}.wav", samples, RATE_HZ)
            told = {"path": f"{name}.wav", "speaker": name, "sex": sex, "language": "en"}
            writer.writerow({**told, "licence": term, "attribution": f"The line of {name}"})
    (folder / "corpus.yaml").write_text("name: mine\nfiles:\n  - {folder: audio, table: t.csv}\n")
    (folder / "x.yaml").write_text(RECIPE + f"licence: {licence}\n")
    return folder / "x.yaml"


def front_matter(dataset: Path) -> dict[str, Any]:
    """The YAML of a built card."""
    found: dict[str, Any] = yaml.safe_load((dataset / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    return found


@pytest.mark.parametrize("command", ["plan", "build", "shard"])
def test_a_forbidden_mix_is_refused_before_anything_is_rendered(
    tmp_path: Path, voices: dict[str, FloatArray], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """By every command that would make sound: the file, both licences and the clause are told, no folder is made, no traceback."""
    path = recipe_with(tmp_path, voices, "CC-BY-SA-4.0", "CC-BY-NC-SA-4.0", "CC0-1.0")
    out = [] if command == "plan" else ["--out", str(tmp_path / "ds")]
    status = main([command, *(["loudness/test-00000-of-00001"] if command == "shard" else []), "--recipe", str(path), *out])
    said = capsys.readouterr()
    assert status == 1
    assert "the licences of the sources don't allow this dataset; nothing was rendered:" in said.err
    assert ".wav (" in said.err
    assert "CC-BY-NC-SA-4.0 asks for the same licence (section 3(b))" in said.err
    assert "Traceback" not in said.err
    assert not list(tmp_path.glob("ds*"))


def test_a_declared_licence_is_checked_before_anything_is_rendered(tmp_path: Path, voices: dict[str, FloatArray]) -> None:
    """Non-commercial speech in a dataset that says CC BY: refused with the clause."""
    path = recipe_with(tmp_path, voices, "CC-BY-NC-4.0", "CC-BY-4.0", "CC0-1.0", licence="CC-BY-4.0")
    with pytest.raises(LicencesForbid, match=r"CC-BY-NC-4\.0 allows no commercial use \(section 2\(a\)\(1\)\), CC-BY-4\.0 does"):
        pipeline.load_plan(path, None)


def test_speech_that_a_build_does_not_use_forbids_nothing(tmp_path: Path, voices: dict[str, FloatArray]) -> None:
    """A build of synthesis alone isn't bound by the licences of a corpus that it leaves alone."""
    path = recipe_with(tmp_path, voices, "CC-BY-ND-4.0", "CC-BY-ND-4.0", "CC-BY-ND-4.0")
    path.write_text(path.read_text().replace("{kind: speech}", "{kind: noise}"))
    assert pipeline.load_plan(path, None)[0].shards


def test_licences_and_sexes_reach_card_and_attribution(tmp_path: Path, voices: dict[str, FloatArray]) -> None:
    """Built from one licence the card says it; every source has its line under its licence; clips are counted by sex."""
    path = recipe_with(tmp_path, voices, "CC-BY-4.0", "CC-BY-4.0", "CC-BY-4.0")
    pipeline.build(path, None, tmp_path / "ds", Local(1), lambda line: None)
    card = (tmp_path / "ds" / "README.md").read_text(encoding="utf-8")
    front = front_matter(tmp_path / "ds")
    assert front["license"] == "cc-by-4.0"
    assert "license_name" not in front
    assert "| CC-BY-4.0 | 6 | attribution | https://creativecommons.org/licenses/by/4.0/ |" in card
    counts = [row.split(" | ")[1:] for row in card.splitlines() if row.startswith(("| train | ", "| validation | ", "| test | "))]
    assert sorted(counts) == [["0", "0", "2 |"], ["0", "2", "0 |"], ["2", "0", "0 |"]]
    lines = (tmp_path / "ds" / "ATTRIBUTION.md").read_text(encoding="utf-8")
    under = lines.split("## CC-BY-4.0\n")[1]
    assert all(f"- The line of {name}\n" in under for name in voices)
    assert "cut" in lines.split("## ")[0]
