"""Names of files and folders are never patterns or addresses: whatever is in them, exactly they are meant."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builder import commands, places, recipe, resume, streamed
from builder.__main__ import main
from builder.streamed import ColumnRule, Wanted

NAMES = st.text("ab[]#?*%:;{}!@'\"$&\\~ ñ+=,|", min_size=1, max_size=8)
ODD = ("[ab]", "a#b", "a?b", "a*b", "**", "%41", "a::b", "{a,b}", "a'b", 'a"b', "$HOME", "~", "a b", "-a", "s3:")


@pytest.fixture(scope="module")
def tiny(audited: Path) -> tuple[Path, str]:
    """A dataset, and one of its clips."""
    path = next((audited / "data" / "loudness").glob("test-*"))
    return audited, pq.read_table(path, columns=["id"]).to_pylist()[0]["id"]


def among_decoys(place: Path, name: str) -> Path:
    """A folder with a name, beside others that it would match as a pattern."""
    for decoy in ("a", "b", "ab", "aXb", "A", "c"):
        if decoy != name:
            (place / decoy).mkdir(exist_ok=True)
            (place / decoy / "decoy.txt").write_text("not asked for")
    (place / name).mkdir(exist_ok=True)
    return place / name


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NAMES)
@example("[ab]")
@example("a*b")
@example("a#b?c%41")
@example("a::b")
def test_a_dataset_in_any_folder_is_that_dataset(tiny: tuple[Path, str], capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Read, exported, its card written again and it copied over an older one: the files of this folder, and no other is touched."""
    audited, clip = tiny
    with tempfile.TemporaryDirectory() as place:
        root = among_decoys(Path(place), name)
        dataset = root / name
        shutil.copytree(audited, dataset)
        assert main(["label", clip, "--dataset", str(dataset)]) == 0
        assert main(["export", "--dataset", str(dataset), "--as", "jsonl", "--to", str(root / f"to{name}"), "--config", "loudness"]) == 0
        assert main(["card", "--dataset", str(dataset)]) == 0
        assert places.contents(dataset, places.names(dataset)).keys() == places.contents(audited, places.names(audited)).keys()
        shutil.copytree(audited, resume.partial_of(dataset))
        resume.swap(resume.partial_of(dataset), dataset)
        assert places.names(root / f"to{name}")
        assert places.contents(dataset, places.names(dataset)) == places.contents(audited, places.names(audited))
        assert (Path(place) / "c" / "decoy.txt").is_file()
    capsys.readouterr()


@pytest.mark.parametrize("name", ODD)
def test_a_recipe_and_what_it_includes_may_be_anywhere(audited: Path, tmp_path: Path, name: str) -> None:
    """Its folder, its own name and its included file's."""
    root = among_decoys(tmp_path, name)
    shutil.copy(audited.parent / "base.yaml", root / f"{name}.base.yaml")
    text = (audited.parent / "noise.yaml").read_text().replace("include: base.yaml", f"include: {json.dumps(f'{name}.base.yaml')}")
    (root / f"{name}.yaml").write_text(text)
    assert recipe.load(root / f"{name}.yaml").digest == recipe.load(audited.parent / "noise.yaml").digest


@pytest.mark.parametrize("name", ODD)
def test_datasets_opens_a_folder_under_a_name_that_is_no_pattern(audited: Path, tmp_path: Path, name: str) -> None:
    """The rows of this folder alone, though a neighbour's name fits as a pattern."""
    root = among_decoys(tmp_path, name)
    shutil.copytree(audited, root, dirs_exist_ok=True)
    if not (tmp_path / "aXb" / "data").exists():
        shutil.copytree(audited, tmp_path / "aXb", dirs_exist_ok=True)
    with places.without_magic(root) as folder:
        rows = load_dataset(str(folder), "loudness", split="test", cache_dir=str(tmp_path / "cache"))
        assert len(rows) == 4
    wanted = Wanted(str(root), None, "loudness", "test", ColumnRule(speaker="source_kind", id=["id"]), {})
    assert len(list(streamed._rows(wanted))) == 4


@pytest.mark.parametrize("base", ["memory://names/x[1]#2", "memory://names/q?r*s%25t"])
def test_objects_of_a_store_are_never_patterns(base: str) -> None:
    """Written, listed, read, copied and removed by exactly their names; what they'd match as patterns stays."""
    root = places.parsed(base)
    names = sorted(["a[b]/x", "a#b", "a?b", "a*b", "aXb", "a%41b", "a b", "a{b,c}", "a%b"])
    for name in names:
        places.write(name.encode(), root / name)
    assert places.names(root) == names
    assert places.contents(root, names) == {name: name.encode() for name in names}
    places.copy(root / "a*b", root / "c[1]")
    assert places.content(root / "c[1]") == b"a*b"
    gone = ["a*b", "a[b]/x", "c[1]", "none[2]"]
    places.remove(root, gone)
    assert places.names(root) == [name for name in names if name not in gone]


@pytest.mark.parametrize(("url", "path"), [("file:///a/b[1]#2?3", "/a/b[1]#2?3"), ("file://localhost/a%20b", "/a b"), ("a#b?c", "a#b?c")])
def test_a_path_ends_at_its_end(url: str, path: str) -> None:
    """A number sign or a question mark begins no fragment and no query."""
    assert places.parsed(url) == Path(path)


@settings(max_examples=50, deadline=None)
@given(NAMES)
def test_printed_commands_are_what_a_shell_takes(name: str) -> None:
    """A shell's own reading of them gives the parts again, and of Python's lines Python's."""
    assert shlex.split(commands.command("show", "--dataset", name))[1:] == ["show", "--dataset", name]
    program, option, code = shlex.split(commands.python(f"print({commands.literal(name)}, end='')"))
    assert (program, option) == (sys.executable, "-c")
    assert eval(commands.literal(name)) == name
    assert code == f"print({commands.literal(name)}, end='')"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["[ab] c'd", "a$b"])
def test_what_a_build_prints_can_be_run(audited: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line, by a shell in another folder: it's about this dataset and this recipe, and the last one would build this recipe again."""
    root = among_decoys(tmp_path, name)
    shutil.copy(audited.parent / "base.yaml", root)
    shutil.copy(audited.parent / "noise.yaml", root / f"{name}.yaml")
    capsys.readouterr()
    assert main(["build", "--recipe", str(root / f"{name}.yaml"), "--out", str(root / name), "--workers", "1"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.partition("Try next:\n")[2].splitlines()]
    assert len(lines) == 4
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for line in lines[:3]:
        script = f'vocalgrad() {{ {shlex.quote(sys.executable)} -m builder "$@"; }}; {line}'
        done = subprocess.run(["bash", "-c", script], cwd=elsewhere, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)
    assert shlex.split(lines[3], comments=True)[1:] == [
        "build", "--recipe", str(root / f"{name}.yaml"), "--out", str(root / name), "--seed", "2",
    ]  # fmt: skip
