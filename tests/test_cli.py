"""The command line: exit codes, messages on stderr that say what to do, and never a traceback."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

import builder
from builder import pipeline
from builder.__main__ import main
from builder.dimensions import BY_NAME

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "recipes"
RATE_HZ = 16_000

TINY = """\
include: base.yaml
dimension: loudness
speech: {corpus: null}
tiers: {medium: 4.0}
curves: [linear]
pairs_per_cell: {train: 1, validation: 1, test: 1}
controls_per_kind: {train: 0, validation: 0, test: 1}
sources:
  - {kind: noise}
"""


@dataclass(frozen=True)
class Said:
    """What a command ended with."""

    status: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process; argparse's exits are statuses, and any other exception fails the test."""

    def run(*arguments: str | Path) -> Said:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Said(status, captured.out, captured.err)

    return run


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recipe of three pairs of noise and a control, and the dataset that `build` makes of it."""
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copy(RECIPES / "base.yaml", folder)
    (folder / "tiny.yaml").write_text(TINY)
    assert main(["build", "--recipe", str(folder / "tiny.yaml"), "--out", str(folder / "ds"), "--workers", "1"]) == 0
    return folder / "tiny.yaml", folder / "ds"


def ids(dataset: Path) -> list[str]:
    """Identifiers of all clips of a dataset."""
    return [row["id"] for path in sorted(dataset.rglob("*.parquet")) for row in pq.read_table(path, columns=["id"]).to_pylist()]


def write_sweep(path: Path, semitones: float = 6.0, rate_hz: int = RATE_HZ, channels: int = 1) -> Path:
    """A harmonic tone that glides from 200 Hz over two seconds, as a file."""
    time_s = np.arange(2 * rate_hz) / rate_hz
    phase = np.cumsum(200.0 * 2.0 ** (semitones * time_s / 2.0 / 12.0)) / rate_hz
    samples = sum(0.1 / k * np.sin(2.0 * np.pi * k * phase) for k in range(1, 6))
    soundfile.write(path, np.stack([samples] * channels, axis=1), rate_hz)
    return path


# -- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "the following arguments are required: STAGE"),
        (["biuld"], "argument STAGE: unknown name 'biuld' (did you mean 'build'?); known: recipe, sources, plan, "),
        (["show"], "the following arguments are required: id"),
        (["measure"], "the following arguments are required: file"),
        (["build", "--workers", "0"], "argument --workers: '0' isn't a whole number, 1 or more"),
        (["build", "--workers", "-3"], "argument --workers: '-3' isn't a whole number, 1 or more"),
        (["build", "--workers", "many"], "argument --workers: 'many' isn't a whole number, 1 or more"),
        (["build", "--workers", "1.5"], "argument --workers: '1.5' isn't a whole number, 1 or more"),
        (["build", "--workers", "²"], "argument --workers: '²' isn't a whole number, 1 or more"),
        (["build", "--workers", ""], "argument --workers: '' isn't a whole number, 1 or more"),
        (["recipe", "--seed", "one"], "argument --seed: 'one' isn't a whole number from 0 to 9223372036854775807, nor env:NAME"),
        (["plan", "--seed", "-3"], "argument --seed: '-3' isn't a whole number from 0 to 9223372036854775807, nor env:NAME"),
        (["build", "--seed", str(2**63)], f"argument --seed: '{2**63}' isn't a whole number from 0 to"),
        (["build", "--seed", "9" * 5000], "isn't a whole number from 0 to"),
        (["sources", "--seed", "1_0"], "argument --seed: '1_0' isn't a whole number from 0 to"),
        (["build", "--speed", "2"], "unknown: --speed (did you mean '--seed'?), 2; `vocalgrad build --help` lists what it takes"),
        (["build", "--recipee=x"], "unknown: --recipee=x (did you mean '--recipe'?); `vocalgrad build --help` lists what it takes"),
        (["build", "now"], "unknown: now; `vocalgrad build --help` lists what it takes"),
        (["build", "--engine", "dusk"], "argument --engine: unknown name 'dusk' (did you mean 'dask'?); known: local, dask"),
        (["export", "--to", "x", "--as", "json"], "argument --as: unknown name 'json' (did you mean 'jsonl'?); known: audiofolder, "),
    ],
)
def test_wrong_usage_ends_with_2_and_a_line(run: Run, arguments: list[str], told: str) -> None:
    """What was wrong is the last line of stderr; nothing is built."""
    said = run(*arguments)
    assert (said.status, said.out) == (2, "")
    assert told in said.err.splitlines()[-1]
    assert said.err.startswith("usage: vocalgrad")


@pytest.mark.parametrize("stage", [None, *(stage for stage in pipeline.STAGES if stage != "sources"), "build", "show"])
def test_every_stage_has_its_help(run: Run, stage: str | None) -> None:
    """`--help` of the whole and of each subcommand."""
    said = run(*([stage] if stage else []), "--help")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("usage: vocalgrad")


def test_the_version_is_the_packages(run: Run) -> None:
    """One line, to stdout."""
    assert run("--version") == Said(0, f"vocalgrad {builder.__version__}\n", "")


# -- recipe and plan --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["recipe", "sources", "plan", "shard", "build"])
def test_a_missing_recipe_is_named(run: Run, tmp_path: Path, stage: str) -> None:
    """By every stage that reads one, before anything is made."""
    extra = {"shard": ["pitch/test-00000-of-00001", "--out", tmp_path / "out"], "build": ["--out", tmp_path / "out"]}.get(stage, [])
    said = run(stage, *extra, "--recipe", tmp_path / "nix.yaml")
    assert said.status == 1
    assert said.err == f"vocalgrad {stage}: 1 fault in the recipe:\n  {tmp_path}/nix.yaml: there is no such file\n"
    assert list(tmp_path.iterdir()) == []


def test_a_bad_recipe_is_told_with_all_its_faults(run: Run, tmp_path: Path) -> None:
    """File, line, key, nearest key: on stderr, with status 1."""
    shutil.copy(RECIPES / "base.yaml", tmp_path)
    (tmp_path / "x.yaml").write_text(TINY + "margin: {}\nisolation: {max_leek_jnd: 0.5}\n")
    said = run("plan", "--recipe", tmp_path / "x.yaml")
    assert (said.status, said.out) == (1, "")
    assert said.err.splitlines() == [
        "vocalgrad plan: 2 faults in the recipe:",
        f"  {tmp_path}/x.yaml:10: margin: unknown key (did you mean 'margins'?)",
        f"  {tmp_path}/x.yaml:11: isolation.max_leek_jnd: unknown key (did you mean 'max_leak_jnd'?)",
    ]


def test_recipe_prints_every_value(run: Run) -> None:
    """JSON with all defaults filled in, the seed that was given, and the digest."""
    said = run("recipe", "--recipe", RECIPES / "synthesis.yaml", "--seed", "7")
    assert (said.status, said.err) == (0, "")
    values = json.loads(said.out)
    assert (values["seed"], values["speech"]["corpus"]) == (7, None)
    assert {part["dimension"] for part in values["dimensions"]} <= set(BY_NAME)
    assert all(part["margins"]["min_gain"] > 0.0 for part in values["dimensions"])
    assert re.fullmatch("[0-9a-f]{64}", values["recipe_sha256"])


def test_plan_prints_shards_and_totals(run: Run) -> None:
    """One line per shard whose pairs add up to the total; the same again, and another for another seed."""
    said = run("plan", "--recipe", RECIPES / "synthesis.yaml")
    assert (said.status, said.err) == (0, "")
    shards = re.findall(r"^(\w+/[\w-]+-\d{5}-of-\d{5}) +(\d+) +(\d+) +", said.out, re.MULTILINE)
    (total,) = re.findall(r"^(\d+) pairs and (\d+) controls, (\d+) clips$", said.out, re.MULTILINE)
    n_pairs, n_controls, n_clips = map(int, total)
    assert sum(int(count) for name, _, count in shards if not name.startswith("controls/")) == n_pairs
    assert sum(int(count) for name, _, count in shards if name.startswith("controls/")) == n_controls
    assert n_clips == 2 * n_pairs + n_controls
    assert re.search(r"\bplan [0-9a-f]{16}$", said.out, re.MULTILINE)
    assert re.search(r"^first candidate: .+, span .+, source s[0-9a-f]+$", said.out, re.MULTILINE)
    assert run("plan", "--recipe", RECIPES / "synthesis.yaml") == said
    assert run("plan", "--recipe", RECIPES / "synthesis.yaml", "--seed", "2").out != said.out


@pytest.mark.parametrize("counts", ["{train: 0, validation: 0, test: 0}", "{}"])
@pytest.mark.parametrize("stage", ["plan", "build"])
def test_nothing_to_build_is_an_error(run: Run, tmp_path: Path, stage: str, counts: str) -> None:
    """Zero pairs never end well: status 1 and a message."""
    base = (RECIPES / "base.yaml").read_text()
    kept = [line for line in base.splitlines(keepends=True) if not line.startswith(("pairs_per_cell", "controls_per_kind"))]
    (tmp_path / "base.yaml").write_text("".join(kept))
    content = TINY.replace("{train: 1, validation: 1, test: 1}", counts).replace("{train: 0, validation: 0, test: 1}", counts)
    (tmp_path / "x.yaml").write_text(content)
    said = run(stage, "--recipe", tmp_path / "x.yaml", *(["--out", tmp_path / "out", "--workers", "1"] if stage == "build" else []))
    assert said.status == 1
    assert said.err.startswith(f"vocalgrad {stage}: ")
    assert not (tmp_path / "out").exists()


def test_an_unknown_shard_is_named_beside_known_ones(run: Run, tiny: tuple[Path, Path], tmp_path: Path) -> None:
    """And nothing is written."""
    for name, hint in (
        ("x", "; it has loudness/train-00000-of-00001, "),
        ("loudness/tets", " (did you mean 'loudness/test-0"),
    ):
        said = run("shard", name, "--recipe", tiny[0], "--out", tmp_path / "out")
        assert said.status == 1
        assert said.err.startswith(f"vocalgrad shard: the plan has no shard '{name}'{hint}")
    assert list(tmp_path.iterdir()) == []


def test_one_shard_made_alone_is_the_builds(run: Run, tiny: tuple[Path, Path], tmp_path: Path) -> None:
    """The same bytes as in the whole build."""
    name = "loudness/test-00000-of-00001"
    said = run("shard", name, "--recipe", tiny[0], "--out", tmp_path / "out")
    assert (said.status, said.err) == (0, "")
    assert (tmp_path / f"out.partial/data/{name}.parquet").read_bytes() == (tiny[1] / f"data/{name}.parquet").read_bytes()


# -- measure ----------------------------------------------------------------------------------------------------------


def test_measure_prints_a_table(run: Run, tmp_path: Path) -> None:
    """One line per dimension with its unit; a tone that rises by 6 semitones rises by 4 from its first third to its last."""
    path = write_sweep(tmp_path / "a b ñ.wav")
    said = run("measure", path)
    assert (said.status, said.err) == (0, "")
    table_text, reasons = said.out.split("\n\n")
    head, columns, *lines = table_text.splitlines()
    assert head.startswith(f"{path}: 2.00 s at 16000 Hz, active 0.00 to 2.00 s")
    assert columns.split() == ["dimension", "contrast", "rank", "valid", "unit"]
    table = {line.split()[0]: line.split()[1:] for line in lines}
    assert list(table) == list(BY_NAME)
    assert [" ".join(row[3:]) for row in table.values()] == [dimension.unit for dimension in BY_NAME.values()]
    contrast, rank, valid, _ = table["pitch"]
    assert float(contrast) == pytest.approx(4.0, abs=0.1)
    assert (float(rank), valid) == (1.0, "100%")
    assert reasons.startswith("no value of tempo,")


def test_measure_prints_contours_as_json(run: Run, tmp_path: Path) -> None:
    """Strict JSON: every dimension with times and values of one length, null where there is no value."""
    said = run("measure", write_sweep(tmp_path / "a.flac", -6.0), "--json")
    assert (said.status, said.err) == (0, "")
    values = json.loads(said.out, parse_constant=lambda name: pytest.fail(f"{name} isn't JSON"))
    assert list(values) == list(BY_NAME)
    for contour in values.values():
        assert len(contour["time_s"]) == len(contour["value"])
    pitch = [value for value in values["pitch"]["value"] if value is not None]
    assert pitch[0] - pitch[-1] == pytest.approx(6.0, abs=0.3)


@pytest.mark.parametrize(("rate_hz", "channels"), [(8_000, 1), (22_050, 1), (44_100, 2), (48_000, 1)])
def test_measure_takes_any_rate_and_channels(run: Run, tmp_path: Path, rate_hz: int, channels: int) -> None:
    """The same glide measures the same."""
    said = run("measure", write_sweep(tmp_path / "a.wav", 6.0, rate_hz, channels))
    (line,) = [line for line in said.out.splitlines() if line.startswith("pitch")]
    assert float(line.split()[1]) == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("duration_s", [0.0, 0.0001, 0.01, 0.05, 0.1, 0.45])
@pytest.mark.parametrize("level", [0.0, 1e-4, 0.2])
def test_measure_of_little_or_nothing_is_no_value(run: Run, tmp_path: Path, duration_s: float, level: float) -> None:
    """Short or silent files give a table with `nan` where nothing can be told, not a traceback."""
    samples = level * np.sin(2.0 * np.pi * 220.0 * np.arange(round(duration_s * RATE_HZ)) / RATE_HZ)
    soundfile.write(tmp_path / "a.wav", samples, RATE_HZ, subtype="FLOAT")
    said = run("measure", tmp_path / "a.wav")
    assert (said.status, said.err) == (0, "")
    table = {line.split()[0]: line.split()[1:] for line in said.out.split("\n\n")[0].splitlines()[2:]}
    assert list(table) == list(BY_NAME)
    if level < 0.01 or duration_s < 0.1:
        assert [row[0] for row in table.values()] == ["nan"] * len(table)
    assert run("measure", tmp_path / "a.wav", "--json").status == 0


def test_measure_of_a_missing_file_names_it(run: Run, tmp_path: Path) -> None:
    """A folder is no sound file either."""
    assert run("measure", tmp_path / "nix.wav") == Said(1, "", f"vocalgrad measure: no such file: {tmp_path}/nix.wav\n")
    assert run("measure", tmp_path) == Said(1, "", f"vocalgrad measure: no such file: {tmp_path}\n")


@pytest.mark.parametrize("content", [b"", b"this is text\n" * 50, np.random.default_rng(1).bytes(5000), b"RIFF\xff\xff\xff\xffWAVE"])
def test_measure_of_garbage_names_it(run: Run, tmp_path: Path, content: bytes) -> None:
    """What isn't audio is told so, with the decoder's reason."""
    (tmp_path / "a.wav").write_bytes(content)
    said = run("measure", tmp_path / "a.wav")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith(f"vocalgrad measure: {tmp_path}/a.wav: unreadable: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_measure_of_what_is_not_finite_says_so(run: Run, tmp_path: Path, bad: float) -> None:
    """A float file with NaN or infinity can't be measured: a message, not a number."""
    samples = soundfile.read(write_sweep(tmp_path / "a.wav"))[0]
    samples[1000:1010] = bad
    soundfile.write(tmp_path / "a.wav", samples, RATE_HZ, subtype="FLOAT")
    for extra in ((), ("--json",)):
        said = run("measure", tmp_path / "a.wav", *extra)
        assert (said.status, said.out) == (1, "")
        assert said.err.startswith(f"vocalgrad measure: {tmp_path}/a.wav: ")
        assert "finite" in said.err


# -- a dataset --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["show", "render", "label", "validate", "card"])
def test_no_dataset_is_told_with_the_way_to_one(run: Run, tmp_path: Path, stage: str) -> None:
    """By every stage that reads one: the folder, and how to build or name it."""
    for folder in (tmp_path, tmp_path / "nix"):
        said = run(stage, *(["abc"] if stage in ("show", "render", "label") else []), "--dataset", folder)
        told = f"no dataset at {folder}: build one there with `vocalgrad build --out {folder}`, or name its folder with --dataset"
        assert said == Said(1, "", f"vocalgrad {stage}: {told}\n")


def test_build_says_what_it_made_and_what_next(run: Run, tiny: tuple[Path, Path]) -> None:
    """Counts, reasons, a command for one clip; run again it makes nothing anew and changes no byte."""
    path, dataset = tiny
    before = {item.relative_to(dataset): item.read_bytes() for item in dataset.rglob("*") if item.is_file()}
    said = run("build", "--recipe", path, "--out", dataset, "--workers", "2")
    assert (said.status, said.err) == (0, "")
    assert "plan     3 pairs and 1 control (7 clips) in 4 shards; seed 1" in said.out
    assert "resume   4 of 4 shards are already there and whole" in said.out
    assert f"{dataset}/ is whole and valid: release 0.1.0+seed.1, 7 clips." in said.out
    mine = re.escape(f"--dataset {dataset} --recipe {path}")
    assert re.search(rf"^  vocalgrad show vg[0-9a-f]+ {mine}  # a picture", said.out, re.M)
    assert re.search(rf"^  vocalgrad render vg[0-9a-f]+ {mine}  # the same", said.out, re.M)
    assert f"\n  vocalgrad build --recipe {path} --out {dataset} --seed 2  # fresh splits in place of these\n" in said.out
    assert {item.relative_to(dataset): item.read_bytes() for item in dataset.rglob("*") if item.is_file()} == before


@pytest.mark.parametrize("kind", ["a folder with files", "a file", "under a file"])
def test_build_replaces_nothing_that_is_not_its_own(run: Run, tiny: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    """An output that can't be written, or holds something else, is told with its path, and stays."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    out = {"a folder with files": "mine", "a file": "mine/thesis.txt", "under a file": "mine/thesis.txt/ds"}[kind]
    said = run("build", "--recipe", tiny[0], "--out", tmp_path / out, "--workers", "1")
    assert said.status == 1
    assert said.err.startswith("vocalgrad build: ")
    assert str(tmp_path / out) in said.err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("stage", ["show", "render", "label"])
def test_an_unknown_or_unclear_id_is_told(run: Run, tiny: tuple[Path, Path], stage: str) -> None:
    """No clip: the nearest identifier, by how it begins; several: how many, with an example."""
    known = ids(tiny[1])[0]
    mistyped = known[:-1] + ("0" if known[-1] != "0" else "1")
    for clip, told in (
        (mistyped, f"no identifier of the dataset begins so; the nearest is {known}. The column `id` has them all"),
        ("vg", "7 identifiers of the dataset begin so, such as vg"),
    ):
        said = run(stage, clip, "--dataset", tiny[1], "--recipe", tiny[0])
        assert (said.status, said.out) == (1, "")
        assert said.err.startswith(f"vocalgrad {stage}: clip '{clip}': {told}")


def test_show_suggests_the_dimension_that_was_meant(run: Run, tiny: tuple[Path, Path]) -> None:
    """What is neither a dimension nor begins like an identifier gets the nearest dimension, and all of them."""
    said = run("show", "ptich", "--dataset", tiny[1], "--recipe", tiny[0])
    assert said.status == 1
    assert said.err.startswith("vocalgrad show: unknown dimension 'ptich' (did you mean 'pitch'?); known: pitch, loudness, ")
    assert said.err.endswith("; a clip's identifier begins with vg\n")


def test_render_gives_the_published_bytes(run: Run, tiny: tuple[Path, Path], tmp_path: Path) -> None:
    """From the row alone, by whole identifier or its beginning."""
    clip = ids(tiny[1])[0]
    for name in (clip, clip[:12]):
        said = run("render", name, "--dataset", tiny[1], "--recipe", tiny[0], "--to", tmp_path / "a.flac")
        assert (said.status, said.err) == (0, "")
        checksum = hashlib.sha256((tmp_path / "a.flac").read_bytes()).hexdigest()
        assert f"sha256 equals the published {checksum[:16]}" in said.out


def test_label_says_what_the_bytes_say(run: Run, tiny: tuple[Path, Path]) -> None:
    """Beside what was published: the same, with status 0."""
    for clip in ids(tiny[1]):
        said = run("label", clip, "--dataset", tiny[1], "--recipe", tiny[0])
        assert (said.status, said.err) == (0, "")
        assert re.match(rf"{clip}: loudness: the bytes say (up|down|nothing), published is \1\n", said.out)


def test_show_draws_a_clip(run: Run, tiny: tuple[Path, Path], tmp_path: Path) -> None:
    """A PNG where it was asked for."""
    said = run("show", ids(tiny[1])[0], "--dataset", tiny[1], "--recipe", tiny[0], "--to", tmp_path / "a.png")
    assert said == Said(0, f"{tmp_path}/a.png\n", "")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stage", ["render", "show"])
def test_a_place_that_cannot_be_written_is_told(run: Run, tiny: tuple[Path, Path], tmp_path: Path, stage: str) -> None:
    """A folder that isn't there: its path, not a traceback."""
    target = tmp_path / "nix" / "a.png"
    said = run(stage, ids(tiny[1])[0], "--dataset", tiny[1], "--recipe", tiny[0], "--to", target)
    assert said.status == 1
    assert said.err.startswith(f"vocalgrad {stage}: ")
    assert str(target) in said.err


def test_validate_and_card_on_a_whole_dataset(run: Run, tiny: tuple[Path, Path]) -> None:
    """No fault; the card written again is the card that was there."""
    written = [tiny[1] / "README.md", tiny[1] / "croissant.json"]
    before = [path.read_bytes() for path in written]
    said = run("validate", "--dataset", tiny[1])
    assert (said.status, said.out) == (0, f"{tiny[1]}: 7 rows, 0 faults\n")
    assert run("card", "--dataset", tiny[1]) == Said(0, f"{written[0]}\n{written[1]}\n", "")
    assert [path.read_bytes() for path in written] == before


def damaged(dataset: Path, into: Path, how: str) -> Path:
    """A copy of a dataset with one kind of damage."""
    copy = shutil.copytree(dataset, into / "ds")
    shard = copy / "data" / "loudness" / "test-00000-of-00001.parquet"
    if how == "no shard":
        shard.unlink()
    elif how == "garbage shard":
        shard.write_bytes(b"garbage")
    elif how == "short shard":
        shard.write_bytes(shard.read_bytes()[:-100])
    else:
        content = {"empty manifest": "{}", "list for manifest": "[]", "no JSON": "not JSON", "no UTF-8": b"\xff\xfe"}[how]
        (copy / "manifest.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    return copy


@pytest.mark.parametrize("how", ["no shard", "garbage shard", "short shard", "empty manifest", "list for manifest", "no JSON", "no UTF-8"])
@pytest.mark.parametrize("stage", ["show", "render", "label", "validate", "card"])
def test_a_damaged_dataset_is_told_not_a_traceback(run: Run, tiny: tuple[Path, Path], tmp_path: Path, stage: str, how: str) -> None:
    """Whatever is wrong with the files: status 1, and the shard or the folder is named."""
    copy = damaged(tiny[1], tmp_path, how)
    clip = [ids(tiny[1] / "data" / "loudness")[0]] if stage in ("show", "render", "label") else []
    recipe = ["--recipe", tiny[0]] if clip else []
    said = run(stage, *clip, "--dataset", copy, *recipe)
    assert said.status == 1
    told = said.out + said.err
    assert "test-00000-of-00001" in told if "shard" in how else str(copy) in told


# -- in a process of its own ------------------------------------------------------------------------------------------


def in_process(*arguments: str | Path, folder: Path = ROOT) -> Said:
    """A command as a user runs it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "builder", *map(str, arguments)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


def test_statuses_reach_the_shell(tmp_path: Path) -> None:
    """Done is 0, a fault 1, wrong usage 2; messages go to stderr, results to stdout."""
    path = write_sweep(tmp_path / "a.wav")
    done, fault, usage = in_process("measure", path), in_process("show", "abc", folder=tmp_path), in_process("build", "--workers", "0")
    assert (done.status, done.err, fault.status, fault.out, usage.status, usage.out) == (0, "", 1, "", 2, "")
    assert done.out.startswith(f"{path}: 2.00 s")
    told = "no dataset at vocalgrad: build one there with `vocalgrad build --out vocalgrad`, or name its folder with --dataset"
    assert fault.err == f"vocalgrad show: {told}\n"
    assert "'0' isn't a whole number" in usage.err


def test_a_closed_pipe_is_no_fault(tmp_path: Path) -> None:
    """`vocalgrad measure a.wav --json | head -1` ends quietly."""
    path = write_sweep(tmp_path / "a.wav")
    command = f"{sys.executable} -m builder measure {path} --json | head -c 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"pitch": ', "")


# -- where files go ---------------------------------------------------------------------------------------------------


def test_git_ignores_what_show_and_render_write_by_default() -> None:
    """Pictures and sounds that land in the project's folder, and the dataset itself, are never offered for a commit."""
    written = [*(f"{name}.png" for name in BY_NAME), "vg0123456789.png", "vg0123456789.flac", "vocalgrad/README.md"]
    ignored = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert ignored == written
