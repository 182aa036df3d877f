"""What keeps a version from being released: the changelog, the working tree, the dataset; each with what to do."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import readiness, recipe, release
from builder.__main__ import main

ROOT = Path(__file__).parent.parent
GOOD = """\
# Changes

## 0.2.0, not published yet

- More.

## 0.1.0, 2026-11-30

- First.

Labels moved: none; there is no earlier one.
"""


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A clean working tree with a changelog."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / readiness.CHANGELOG).write_text(GOOD)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(source: Path, audited: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the command; returns its status, what it printed, and its message."""

    def run(dataset: Path = audited, folder: Path = source) -> tuple[int, str, str]:
        capsys.readouterr()
        recipe_path = audited.parent / "noise.yaml"
        status = main(["release-check", "--recipe", str(recipe_path), "--dataset", str(dataset), "--source", str(folder)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_a_version_that_is_ready_is_told_what_to_run(check: Check, audited: Path) -> None:
    """Status 0, and the commands that publish it."""
    status, out, err = check()
    assert (status, err) == (0, "")
    assert "is release 0.1.0+seed.1, made by this code from this recipe, and its audit passed. Next:" in out
    commands = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    assert commands[:3] == [
        f"vocalgrad publish org/name --dataset {audited} --dry-run",
        f"vocalgrad publish org/name --dataset {audited}",
        "vocalgrad pull-check org/name@v0.1.0-seed.1",
    ]


def test_without_a_dataset_the_source_is_checked(check: Check, audited: Path, tmp_path: Path) -> None:
    """It isn't a fault that nothing is built; building comes next."""
    status, out, _ = check(dataset=tmp_path / "none")
    assert status == 0
    none, recipe_path = tmp_path / "none", audited.parent / "noise.yaml"
    assert out.splitlines()[-3:] == [
        f"{none}/ isn't built. Next:",
        f"  vocalgrad build --recipe {recipe_path} --out {none}",
        f"  vocalgrad release-check --recipe {recipe_path} --dataset {none}",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD.replace("## 0.1.0", "## 0.1.1"), "CHANGELOG.md: no section '## 0.1.0': write one"),
        (GOOD.replace("Labels moved:", "Labels:"), "CHANGELOG.md: section 0.1.0 has no line 'Labels moved: ...': say which"),
        (GOOD.replace(" none; there is no earlier one.", " "), "CHANGELOG.md: section 0.1.0 has no line 'Labels moved: ...'"),
        (GOOD.replace("2026-11-30", "not published yet"), "CHANGELOG.md: section 0.1.0 says 'not published yet': write the day"),
        ("", "CHANGELOG.md: no section '## 0.1.0'"),
        (None, "CHANGELOG.md: not in "),
    ],
)
def test_a_changelog_that_does_not_tell_is_refused(source: Path, text: str | None, told: str) -> None:
    """No section, no line of moved labels or an empty one, a section that isn't closed, no file; another version's line doesn't count."""
    path = source / readiness.CHANGELOG
    path.unlink() if text is None else path.write_text(text)
    (fault,) = readiness.changelog_faults(source, "0.1.0")
    assert fault.startswith(told)


def test_moved_labels_of_another_version_do_not_count(source: Path) -> None:
    """A section ends where the next begins."""
    found = list(readiness.changelog_faults(source, "0.2.0"))
    assert [fault.split(": ")[1] for fault in found] == [
        "section 0.2.0 has no line 'Labels moved",
        "section 0.2.0 says 'not published yet'",
    ]


def test_a_tree_that_is_not_clean_is_refused(source: Path, check: Check) -> None:
    """Changed and unknown files are named, five at most."""
    (source / readiness.CHANGELOG).write_text(GOOD + "\n")
    for number in range(6):
        (source / f"new{number}.py").write_text("")
    status, out, err = check()
    assert (status, out) == (1, "")
    assert "can't be released:\n  the working tree isn't clean: commit or put away CHANGELOG.md, new0.py, " in err
    assert err.endswith("new3.py, and 2 more\n")


def test_without_a_repository_it_is_refused(tmp_path: Path) -> None:
    """A release is a commit."""
    (fault,) = readiness.tree_faults(tmp_path)
    assert "not a git repository: release from a clone" in fault


def test_a_machine_without_git_is_told(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback."""
    monkeypatch.setenv("PATH", "")
    assert list(readiness.tree_faults(source)) == [
        "git: not installed: what is released must be a commit, and that can't be told without it"
    ]


@pytest.mark.parametrize(
    ("name", "key", "value", "told"),
    [
        ("manifest.json", "version", "0.0.9", "it's of version 0.0.9, the recipe of 0.1.0: run `vocalgrad build --recipe "),
        ("manifest.json", "recipe_sha256", "0", "it was built from another recipe, or this one has changed"),
        ("manifest.json", "release", "x", "release 'x' isn't <version>+seed.<n>"),
        ("reports/loudness/test-00000-of-00001.json", "factory_digest", "0", "it was made by other code or packages than are here"),
        (release.AUDIT, "failures", ["pitch moves"], "the audit didn't pass (1 failure, such as: pitch moves)"),
    ],
)
def test_a_dataset_that_is_not_this_version_is_refused(
    check: Check, audited: Path, tmp_path: Path, name: str, key: str, value: object, told: str
) -> None:
    """Another version, recipe, code, or an audit that failed."""
    dataset = Path(shutil.copytree(audited, tmp_path / "ds"))
    path = dataset / name
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    status, out, err = check(dataset=dataset)
    assert (status, out) == (1, "")
    assert told in err


def test_a_dataset_that_was_not_audited_is_refused(check: Check, audited: Path, tmp_path: Path) -> None:
    """With the command that audits it."""
    dataset = Path(shutil.copytree(audited, tmp_path / "ds", ignore=shutil.ignore_patterns("audit")))
    assert f"audit/audit.json: missing: run `vocalgrad audit --dataset {dataset}`" in check(dataset=dataset)[2]


def test_a_damaged_manifest_is_told(check: Check, audited: Path, tmp_path: Path) -> None:
    """As every command says it."""
    dataset = Path(shutil.copytree(audited, tmp_path / "ds"))
    (dataset / "manifest.json").write_text("{")
    assert "manifest.json is damaged" in check(dataset=dataset)[2]


def test_our_own_changelog_tells_which_labels_moved() -> None:
    """Of the version that the recipes carry."""
    version = recipe.load(ROOT / "recipes" / "default.yaml").version
    assert [fault for fault in readiness.changelog_faults(ROOT, version) if readiness.UNPUBLISHED not in fault] == []
