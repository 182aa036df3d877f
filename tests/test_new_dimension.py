"""A new dimension takes the README's four steps: a small one is added by them to a copy of the project, tested, built and audited."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WHISTLE = Path(__file__).parent / "whistle"
STEPS = {
    "builder/dimensions/<name>.py": WHISTLE / "whistle.py",
    "builder/dimensions/__init__.py": None,
    "recipes/<name>.yaml": WHISTLE / "whistle.yaml",
    "tests/test_<name>.py": WHISTLE / "known_answer.py",
}
"""The file that each step names -> what is put there; None: one line is added to `NAMES`."""
SMALL = """\
include: base.yaml
dimensions: [whistle.yaml]
speech: {corpus: null}
tiers: {medium: 4.0}
curves: [linear]
pairs_per_cell: {train: 4, validation: 2, test: 4}
controls_per_kind: {train: 0, validation: 0, test: 2}
"""
NOTICING = [
    "tests/test_whistle.py",
    "tests/test_architecture.py",
    "tests/test_oracle.py::test_every_measure_is_of_a_dimension_and_has_a_sound_here",
]
"""Tests that a dimension too many, or one that is half there, would fail."""


def steps() -> list[str]:
    """The file that each of the README's steps names first."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Add a dimension")[1].split("\n## ")[0]
    return [re.findall(r"`([\w/<>.]+\.\w+)`", step)[0] for step in re.findall(r"^\d\. .*$", section, re.M)]


def in_copy(copy: Path, *arguments: str) -> str:
    """Run Python in the copy, whose code comes before what is installed; its output, if it succeeds."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git tracks, with the new dimension in them."""
    copy = tmp_path_factory.mktemp("project")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    for name, source in STEPS.items():
        target = copy / name.replace("<name>", "whistle")
        if source is not None:
            assert not target.exists()
            shutil.copy(source, target)
        else:
            text = target.read_text(encoding="utf-8")
            target.write_text(re.sub(r"(NAMES = \([^)]*)\)", r'\1    "whistle",\n)', text), encoding="utf-8")
    for command in (["init", "-q"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=copy, capture_output=True, check=True)
    return copy


def test_the_steps_are_the_readmes() -> None:
    """The four files that the README tells to write or change are those that are written and changed here, in that order."""
    assert steps() == list(STEPS)


@pytest.mark.slow
def test_four_steps_are_enough(copy: Path) -> None:
    """With them alone the known answers, the house's rules and the oracle's hold, and every recipe of all dimensions has one more."""
    assert "whistle" in in_copy(copy, "-m", "builder", "recipe", "--recipe", "recipes/synthesis.yaml")
    in_copy(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *NOTICING)


@pytest.mark.slow
def test_a_new_dimension_keeps_the_laws(copy: Path) -> None:
    """The laws of all dimensions run over it by themselves."""
    said = in_copy(copy, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_laws.py", "-k", "whistle")
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) >= 15


@pytest.mark.slow
def test_a_new_dimension_is_built_and_audited(copy: Path) -> None:
    """Its audit passes, says that the oracle has no measure of it, and the card says so too; the goldens of the others hold."""
    (copy / "recipes" / "small.yaml").write_text(SMALL, encoding="utf-8")
    out = copy / "built"
    in_copy(copy, "-m", "builder", "build", "--recipe", "recipes/small.yaml", "--out", str(out), "--workers", "1")
    audit = json.loads((out / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert audit["failures"] == []
    (whole,) = [row for row in audit["truth"] if row["by"] == "all"]
    assert (whole["dimension"], whole["n_clips"], whole["rule_contradicts"]) == ("whistle", 20, 0)
    assert (whole["oracle_agrees"], whole["oracle_contradicts"]) == (None, None)
    assert "no oracle measure" in in_copy(copy, "-m", "builder", "audit", "--dataset", str(out), "--workers", "1")
    assert "It has no measure of whistle." in (out / "README.md").read_text(encoding="utf-8")
    in_copy(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_goldens.py", "tests/test_recipe.py", "tests/test_formats.py")
