"""Seeds: what another one changes, secret ones that stand nowhere, and splits that are committed to before they're published."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builder import commitments, difference, pipeline, recipe, seeds
from builder.__main__ import _parser, main
from builder.errors import DatasetInvalid, NotFound, RecipeError, VocalgradError
from builder.keys import spoken_key
from builder.layout import read_manifest, read_rows, split_of
from builder.words import counted
from builder.workers import Local

RECIPES = Path(__file__).parent.parent / "recipes"
SPLITS = ("train", "validation", "test")
SECRET = "3f6b0c1d9a8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e"
MINI = """\
include: base.yaml
dimensions: [loudness.yaml, pan.yaml]
tiers: {medium: 4.0}
curves: [linear]
kinds: [speech, syllables, tone]
pairs_per_cell: {train: 2, validation: 1, test: 1}
controls_per_kind: {train: 0, validation: 0, test: 1}
"""


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of two dimensions on real and synthetic sources."""
    folder = tmp_path_factory.mktemp("mini")
    for name in ("base.yaml", "loudness.yaml", "pan.yaml"):
        shutil.copy(RECIPES / name, folder)
    shutil.copytree(RECIPES / "corpora", folder / "corpora")
    (folder / "mini.yaml").write_text(MINI)
    return folder / "mini.yaml"


@pytest.fixture(scope="module")
def one(mini: Path) -> Path:
    """The dataset of seed 1."""
    return pipeline.build(mini, 1, mini.parent / "one", Local(1), lambda line: None).out


@pytest.fixture(scope="module")
def private(mini: Path) -> Path:
    """The dataset of a secret seed, with all that its build printed in a file beside it."""
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVATE", SECRET)
        built = pipeline.build(mini, seeds.parsed("env:PRIVATE"), mini.parent / "private", Local(1), lines.append)
    (mini.parent / "private.log").write_text("\n".join(lines))
    return built.out


@pytest.fixture
def copy(private: Path, tmp_path: Path) -> Path:
    """A copy of the private dataset, to be tampered with."""
    return Path(shutil.copytree(private, tmp_path / "copy"))


# -- a built dataset --------------------------------------------------------------------------------------------------


def rows_of(root: Path) -> list[dict[str, Any]]:
    """All rows without audio, with their split."""
    columns = ["id", "pair_id", "dimension", "direction", "answer_index", "source_kind", "source_id", "speaker_id", "text", "plan", "curve"]
    return [
        {**row, "split": split_of(item["shard"]), "spec": json.loads(row["plan"])["pair"]["source"]}
        for item in read_manifest(root)["shards"]
        for row in read_rows(root, item["shard"], columns)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "private"])
def test_splits_of_a_dataset_share_nothing(name: str, request: pytest.FixtureRequest) -> None:
    """Over all dimensions and controls: no speaker, recording, text, source or pair is in two splits; speakers are where it's said."""
    root = request.getfixturevalue(name)
    where: dict[tuple[str, str], set[str]] = defaultdict(set)
    real = 0
    for row in rows_of(root):
        where["source", row["source_id"]].add(row["split"])
        where["pair", row["pair_id"]].add(row["split"])
        if row["source_kind"] in recipe.SPEECH_KINDS:
            real += 1
            where["speaker", row["speaker_id"]].add(row["split"])
            where["recording", row["spec"]["parameters"]["sha256"]].add(row["split"])
            where["said", row["spec"]["parameters"].get("said", row["source_id"])].add(row["split"])
            where["text", spoken_key(row["text"] or row["source_id"])].add(row["split"])
    assert real > 20
    assert [key for key, splits in where.items() if len(splits) > 1] == []
    speakers = read_manifest(root)["sources"]["speakers"]
    assert all({speakers[name]} == splits for (what, name), splits in where.items() if what == "speaker")


@pytest.mark.parametrize("name", ["one", "private"])
def test_every_cell_of_a_dataset_is_balanced(name: str, request: pytest.FixtureRequest) -> None:
    """Rising and falling are equally many in each cell, each pair has both, and each choice is right equally often in each split."""
    swept = [row for row in rows_of(request.getfixturevalue(name)) if row["curve"] != "flat"]
    for key in (lambda row: (row["dimension"], row["source_kind"], row["split"]), lambda row: row["pair_id"]):
        for _, group in itertools.groupby(sorted(swept, key=key), key=key):
            directions = [row["direction"] for row in group]
            assert directions.count(0) == directions.count(1) > 0
    for split in SPLITS:
        answers = [row["answer_index"] for row in swept if row["split"] == split]
        assert answers.count(0) == answers.count(1) > 0


def test_what_the_splits_refuse_is_in_the_manifest(one: Path, mini: Path) -> None:
    """Every source that no split may use is counted there under its reason."""
    planned, gathered = pipeline.load_plan(mini, 1)
    refused = read_manifest(one)["sources"]["refused"]
    assert {reason: refused.get(reason) for reason in planned.refused} == planned.refused
    assert set(refused) == set(planned.refused) | set(gathered.refused)


# -- another seed -----------------------------------------------------------------------------------------------------


def test_the_same_plan_changes_nothing(one: Path, mini: Path) -> None:
    """Against its own dataset: everybody stays, every published pair can be made again in its split, nothing is contaminated."""
    planned, _ = pipeline.load_plan(mini, 1)
    found = difference.between(planned, one)
    assert (found.same_recipe, found.before, found.now) == (True, "0.1.0+seed.1", "0.1.0+seed.1")
    assert {what: count for what, count in found.cells.items() if count} == {"as before": found.cells["as before"]}
    assert found.movers == ()
    assert all(old == new for moves in found.moves.values() for old, new in moves)
    assert (
        sum(found.moves["pair"].values())
        == found.n_before["pair"]
        == len({row["pair_id"] for row in rows_of(one) if row["curve"] != "flat"})
    )
    assert found.contaminated() == {}


@pytest.mark.parametrize("seed", [2, 3])
def test_another_seed_tells_what_was_train_before(one: Path, mini: Path, seed: int) -> None:
    """Counts of speakers, cuts and pairs that move from train to test are those that the rows and the plan give."""
    planned, _ = pipeline.load_plan(mini, seed)
    found = difference.between(planned, one)
    before = read_manifest(one)["sources"]["speakers"]
    moved = [
        (name, before[name], planned.split_of[name]) for name in sorted(before) if before[name] != planned.split_of.get(name, before[name])
    ]
    published = {row["speaker_id"] for row in rows_of(one) if row["source_kind"] in recipe.SPEECH_KINDS}
    assert {mover for mover in found.movers if mover[0] in published} <= set(moved)
    pools = {(spec.kind, spec.source_id): shard.split for shard in planned.shards for specs in shard.pool.values() for spec in specs}
    cuts = {(row["source_kind"], row["source_id"]): row["split"] for row in rows_of(one) if row["source_kind"] in recipe.SPEECH_KINDS}
    expected = sum(split == "train" and pools.get(key) == "test" for key, split in cuts.items())
    assert found.contaminated().get("cut", 0) == expected > 0
    swept = {row["pair_id"]: row for row in rows_of(one) if row["curve"] != "flat"}
    again = sum(row["split"] == "train" and pools.get((row["source_kind"], row["source_id"])) == "test" for row in swept.values())
    assert found.contaminated().get("pair", 0) == again
    said = difference.text(found)
    assert f"of the old train split the new test split may use: speakers {found.contaminated()['speaker']}, " in said
    assert "the same recipe" in said


def test_a_manifest_alone_is_compared_as_far_as_it_goes(one: Path, mini: Path, tmp_path: Path) -> None:
    """Speakers and cells; of the rest it's said that it can't be."""
    alone = Path(shutil.copy(one / "manifest.json", tmp_path / "old.json"))
    planned, _ = pipeline.load_plan(mini, 2)
    found = difference.between(planned, alone)
    assert set(found.moves) == {"speaker"}
    assert found.movers
    assert "only the manifest is there" in difference.text(found)


def test_diff_is_a_command(one: Path, mini: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`vocalgrad plan --diff`: after the plan, what would change; a folder without a dataset ends with 1 and a line."""
    assert main(["plan", "--recipe", str(mini), "--seed", "2", "--workers", "1", "--diff", str(one)]) == 0
    assert "\nagainst 0.1.0+seed.1: now 0.1.0+seed.2; the same recipe\n" in capsys.readouterr().out
    assert main(["plan", "--recipe", str(mini), "--workers", "1", "--diff", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"vocalgrad plan: no dataset at {tmp_path}")


def test_the_pages_commands_are_commands() -> None:
    """Every `vocalgrad` line of docs/seeds.md is taken by the command's parser."""
    page = (RECIPES.parent / "docs" / "seeds.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ *\$ vocalgrad ([^#\n]*)", page, re.M)
    assert len(lines) == 3
    for line in lines:
        assert _parser().parse_args(line.split()).command == line.split()[0]


# -- secret seeds -----------------------------------------------------------------------------------------------------


def test_a_secret_seed_is_nowhere_in_its_dataset(private: Path) -> None:
    """Neither the secret nor the number that's made of it stands in any file, decompressed or not, or in what the build prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVATE", SECRET)
        seed = int(seeds.parsed("env:PRIVATE"))
    forms = [SECRET.encode(), str(seed).encode(), f"{seed:x}".encode(), seed.to_bytes(32, "big"), seed.to_bytes(32, "little"), b"PRIVATE"]
    texts = [path.read_bytes() for path in private.rglob("*") if path.is_file()]
    texts += [str(pq.read_table(path).drop_columns(["audio"]).to_pylist()).encode() for path in private.rglob("*.parquet")]
    texts.append((private.parent / "private.log").read_bytes())
    assert len(texts) > 8
    assert not [form for form in forms for text in texts if form in text]
    manifest = read_manifest(private)
    assert re.fullmatch(r"secret-[0-9a-f]{16}", manifest["seed"])
    assert manifest["release"] == f"0.1.0+seed.{manifest['seed']}"
    assert manifest["recipe"]["seed"] == manifest["seed"]
    assert f"seed {manifest['seed']}" in (private / "README.md").read_text()


def test_a_secret_seed_is_another_draw(one: Path, private: Path) -> None:
    """Its synthetic sources are nobody else's; the same secret gives the same plan again."""
    drawn = [{row["source_id"] for row in rows_of(root) if row["source_kind"] == "tone"} for root in (one, private)]
    assert all(drawn)
    assert not drawn[0] & drawn[1]


def test_the_same_secret_is_the_same_plan(private: Path, mini: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan's digest is the manifest's; one letter more, and it's another."""
    monkeypatch.setenv("PRIVATE", SECRET)
    assert pipeline.load_plan(mini, seeds.parsed("env:PRIVATE"))[0].digest == read_manifest(private)["plan_digest"]
    monkeypatch.setenv("PRIVATE", SECRET + "0")
    assert pipeline.load_plan(mini, seeds.parsed("env:PRIVATE"))[0].digest != read_manifest(private)["plan_digest"]


@pytest.mark.parametrize("value", [None, "", "short", "x" * 31, "   " + "x" * 31 + "\n"])
def test_a_secret_must_be_one(value: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable that isn't set or holds too little ends with 2 and says what's needed, without telling the value."""
    monkeypatch.delenv("PRIVATE", raising=False)
    if value is not None:
        monkeypatch.setenv("PRIVATE", value)
    with pytest.raises(SystemExit) as stop:
        main(["plan", "--seed", "env:PRIVATE"])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert "a secret needs 32 random ones" in said
    assert value is None or len(value) < 6 or value.strip() not in said


def test_a_file_or_number_is_never_secret(mini: Path, tmp_path: Path) -> None:
    """2**63 and more, as a number, is out of range: only the environment gives a secret seed; and its name isn't its number."""
    with pytest.raises(RecipeError, match="seed"):
        recipe.load(mini, seeds.PUBLIC_BELOW)
    assert seeds.name_of(seeds.PUBLIC_BELOW - 1) == seeds.PUBLIC_BELOW - 1
    names = {seeds.name_of(seeds.PUBLIC_BELOW + number) for number in range(50)}
    assert len(names) == 50
    assert str(seeds.PUBLIC_BELOW + 1) not in repr(seeds.SecretSeed(seeds.PUBLIC_BELOW + 1))


# -- commitments ------------------------------------------------------------------------------------------------------


@pytest.fixture
def committed(private: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A commitment to the private test split, and its secret."""
    out, secret = tmp_path / "test.json", tmp_path / "keep" / "test.secret"
    commitments.commit(private, "test", out, secret)
    return out, secret


def test_a_split_is_what_was_committed_to(private: Path, committed: tuple[Path, Path]) -> None:
    """No difference; the commitment is the SHA-256 of the secret file, which holds each clip of the split, for its owner's eyes only."""
    out, secret = committed
    promised, faults = commitments.reveal(private, *committed)
    assert faults == []
    assert promised == json.loads(out.read_text())
    assert promised["sha256"] == hashlib.sha256(secret.read_bytes()).hexdigest()
    there = {row["id"] for row in rows_of(private) if row["split"] == "test"}
    assert {row["id"] for row in json.loads(secret.read_text())["rows"]} == there
    assert promised["n_rows"] == len(there)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_commitment_tells_nothing(private: Path, committed: tuple[Path, Path]) -> None:
    """Not the seed's name, no row; and the same split committed to again has another hash: nobody can try seeds until it fits."""
    out, _ = committed
    text = out.read_text()
    manifest = read_manifest(private)
    assert manifest["seed"] not in text
    assert set(json.loads(text)) == {"format", "name", "version", "split", "n_rows", "sha256"}
    again = commitments.commit(private, "test", out.with_name("again.json"), out.with_name("again.secret"))
    assert again["sha256"] != json.loads(text)["sha256"]


def changed_rows(root: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Rewrite the first test shard of loudness with other rows."""
    path = root / "data" / "loudness" / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema), path)


def with_first(**changes: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Changes columns of the first row."""
    return lambda rows: [{**rows[0], **changes}, *rows[1:]]


def other_audio(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first clip gets the second's bytes, and its own row keeps its checksum."""
    return [{**rows[0], "audio": {**rows[0]["audio"], "bytes": rows[1]["audio"]["bytes"]}}, *rows[1:]]


TAMPERING: dict[str, tuple[Callable[[list[dict[str, Any]]], list[dict[str, Any]]], str]] = {
    "an answer": (with_first(answer="stay"), r"^(vg\w+): answer is 'stay', committed to is '(in|de)crease'$"),
    "the order of choices": (lambda rows: with_first(choices=rows[0]["choices"][::-1])(rows), r"^(vg\w+): choices is \["),
    "the question": (with_first(question="What?"), r"^(vg\w+): question is 'What\?'"),
    "audio": (other_audio, r"^(vg\w+): audio_sha256 is "),
    "a row taken out": (lambda rows: rows[1:], r"^(vg\w+): committed to, and not in the dataset$"),
    "a row put in": (lambda rows: [*rows, {**rows[0], "id": "vgnew"}], r"^(vgnew): in the dataset, and not committed to$"),
    "a row twice": (lambda rows: [*rows, rows[0]], r"^(vg\w+): stands in 2 rows$"),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_a_changed_row_is_found_and_named(copy: Path, committed: tuple[Path, Path], how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was changed in the split: the row and the change are told, and the command ends with 1."""
    change, said = TAMPERING[how]
    first = pq.read_table(copy / "data" / "loudness" / "test-00000-of-00001.parquet", columns=["id"])["id"][0].as_py()
    changed_rows(copy, change)
    out, secret = committed
    assert main(["reveal-split", "--dataset", str(copy), "--commitment", str(out), "--secret", str(secret)]) == 1
    lines = capsys.readouterr().out.splitlines()
    match = re.match(said, lines[0])
    assert match
    assert match[1] in (first, "vgnew")
    assert re.search(rf"split test is NOT what was committed to: {counted(len(lines) - 1, 'difference')}", lines[-1])


def without(root: Path, start: str) -> None:
    """Take shards out of a dataset and its manifest."""
    manifest = read_manifest(root)
    manifest["shards"] = [item for item in manifest["shards"] if not item["shard"].startswith(start)]
    (root / "manifest.json").write_text(json.dumps(manifest))


def test_other_splits_may_change(copy: Path, committed: tuple[Path, Path]) -> None:
    """What isn't in the split isn't committed to; a shard of it that's gone is told row by row, controls too."""
    without(copy, "loudness/train")
    assert commitments.reveal(copy, *committed)[1] == []
    without(copy, "controls/")
    _, faults = commitments.reveal(copy, *committed)
    assert faults
    assert all(fault.endswith("committed to, and not in the dataset") for fault in faults)


@pytest.mark.parametrize("how", ["a letter", "the salt", "another dataset's", "empty"])
def test_a_changed_secret_opens_nothing(private: Path, committed: tuple[Path, Path], how: str) -> None:
    """One fault that says so: the secret isn't what was committed to."""
    out, secret = committed
    text = secret.read_text()
    other = {"a letter": text.replace("increase", "decrease", 1), "the salt": text.replace('"salt":"', '"salt":"0'), "empty": ""}
    if how == "another dataset's":
        commitments.commit(private, "train", out.with_name("b.json"), out.with_name("b.secret"))
        other[how] = out.with_name("b.secret").read_text()
    secret.write_text(other[how])
    _, faults = commitments.reveal(private, *committed)
    assert len(faults) == 1
    assert f"committed to is {json.loads(out.read_text())['sha256']}: another secret, or it was changed" in faults[0]


@pytest.mark.parametrize(("key", "value"), [("sha256", "0" * 64), ("split", "train"), ("n_rows", 1)])
def test_a_changed_commitment_is_found(private: Path, committed: tuple[Path, Path], key: str, value: Any) -> None:
    """Another hash, split or number of rows doesn't go with the secret."""
    out, _ = committed
    out.write_text(json.dumps({**json.loads(out.read_text()), key: value}))
    _, faults = commitments.reveal(private, *committed)
    assert len(faults) == 1


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "other"}', "\x00"])
def test_what_is_no_commitment_is_told(private: Path, committed: tuple[Path, Path], content: str) -> None:
    """A line with the file, no traceback."""
    out, secret = committed
    out.write_text(content)
    with pytest.raises(DatasetInvalid, match=re.escape(str(out))):
        commitments.reveal(private, out, secret)


def test_what_cannot_be_committed_to(private: Path, copy: Path, tmp_path: Path) -> None:
    """A secret inside the dataset, a file that's there, a split that isn't, audio that isn't its row's: refused, and nothing is written."""
    out, secret = tmp_path / "c.json", tmp_path / "c.secret"
    with pytest.raises(VocalgradError, match="would be published with it"):
        commitments.commit(private, "test", out, private / "c.secret")
    with pytest.raises(NotFound, match=r"unknown split 'dev'; known: test, train, validation"):
        commitments.commit(private, "dev", out, secret)
    changed_rows(copy, other_audio)
    with pytest.raises(DatasetInvalid, match="the audio's checksum isn't the row's"):
        commitments.commit(copy, "test", out, secret)
    assert not out.exists()
    assert not secret.exists()
    secret.write_text("mine")
    with pytest.raises(VocalgradError, match="is there already"):
        commitments.commit(private, "test", out, secret)
    assert secret.read_text() == "mine"


def test_the_commands_say_what_to_publish(one: Path, private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which file now, which later, and the hash; a public seed is warned of; the reveal ends with 0."""
    out = tmp_path / "test.json"
    assert main(["commit-split", "--dataset", str(private), "--split", "test", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"{out}: publish this now" in said.out
    assert f"{out}.secret: keep this" in said.out
    assert json.loads(out.read_text())["sha256"] in said.out
    assert main(["reveal-split", "--dataset", str(private), "--commitment", str(out), "--secret", f"{out}.secret"]) == 0
    assert re.search(r"split test is what was committed to, all \d+ clips", capsys.readouterr().out)
    assert main(["commit-split", "--dataset", str(one), "--out", str(tmp_path / "public.json")]) == 0
    assert "the dataset's seed, 1, is no secret" in capsys.readouterr().err
