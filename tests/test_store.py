"""Datasets and corpora in an object store: the same bytes as in a folder, never half-replaced, and faults that say what to do."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import s3fs
from hub.client import serving
from made_corpora import SHAPES, corpus, recipe_of
from stores import BUCKET, KEYS, Answer, Line, at, client, files, objects, store
from test_corpus_builds import RECIPE as SPEECH_RECIPE
from test_resume import KILLED

from builder import corpora, layout, pipeline, places, resume
from builder.__main__ import main
from builder.cuts import survey
from builder.errors import CorpusUnavailable, DiskFull, StoreFault, VocalgradError
from builder.factory import factory_digest
from builder.recipe import SpeechRule
from builder.workers import Local

ROOT = Path(__file__).parent.parent
OUT = f"s3://{BUCKET}/some/where/ds"
HELD = f"{BUCKET}/some/where/ds"
RULE = SpeechRule(corpus=None)
SPEECH_SHAPES = [name for name, (_, entries) in SHAPES.items() if "folder" in entries[0]]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A running server."""
    with store() as found:
        yield found


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3fs.S3FileSystem]:
    """Its bucket, empty, as what the environment names."""
    at(endpoint, monkeypatch)
    fs = client(endpoint)
    if there := fs.find(BUCKET):
        fs.rm(there)
    yield fs
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def whole(s3: s3fs.S3FileSystem, audited: Path) -> dict[str, bytes]:
    """An audited dataset, put into the store by hand; its files."""
    s3.put(str(audited), HELD, recursive=True)
    return files(audited)


def run(*arguments: str | Path) -> int:
    """A command in this process."""
    return main([str(argument) for argument in arguments])


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gopher://host/folder", r"gopher://host/folder: the protocol gopher:// isn't known; s3://, hf:// \(reading\) and file:// are"),
        ("https://example.org/ds", r"files under https:// can't be listed; copy them to a folder or an object store"),
        ("s3://key:hush@bucket/ds", r"s3://bucket/ds: no name or password may stand in a URL: set AWS_ACCESS_KEY_ID"),
        ("s3://key@bucket/ds", r"no name or password may stand in a URL"),
        ("gcs://key:hush@bucket/ds", r"gcs://bucket/ds: no name or password"),
        ("file://elsewhere/ds", r"names another machine; write file:///folder"),
        ("simplecache::s3://bucket/ds", r"isn't a path or URL that is understood, such as vocalgrad or s3://bucket/vocalgrad"),
    ],
)
def test_a_url_that_cannot_be_used_is_told(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Usage error 2 with why and what to write; a password is never repeated."""
    with pytest.raises(SystemExit) as stopped:
        run("validate", "--dataset", text)
    told = capsys.readouterr().err
    assert stopped.value.code == 2
    assert re.search(said, told), told
    assert "hush" not in told


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where s3fs isn't installed, the message says how it is."""
    monkeypatch.setattr("fsspec.get_filesystem_class", lambda protocol: (_ for _ in ()).throw(ImportError("Install s3fs")))
    with pytest.raises(StoreFault, match=r"s3://b/ds: what reads and writes s3:// isn't installed: pip install 'vocalgrad\[s3\]'"):
        places.parsed("s3://b/ds")


def test_a_file_url_is_the_folder(tmp_path: Path) -> None:
    """`file://` gives the path itself, blanks decoded; a plain path stays as it's written."""
    assert places.parsed(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert places.parsed("some/where") == Path("some/where")


def test_a_remote_place_goes_to_workers_without_secrets(s3: s3fs.S3FileSystem) -> None:
    """Pickled it's the same place, and neither keys nor the endpoint are in it."""
    place = places.parsed(f"{OUT}/")
    pickled = pickle.dumps(place)
    assert str(pickle.loads(pickled)) == str(place) == OUT
    assert not any(value.encode() in pickled for value in (*KEYS.values(), os.environ["AWS_ENDPOINT_URL"]))


@pytest.mark.parametrize("option", ["--recipe", "--to"])
def test_what_must_be_local_says_so(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that's read or written on this machine can't be a URL."""
    with pytest.raises(SystemExit):
        run("show", "pitch", option, "s3://bucket/x")
    assert "is no file or folder of this machine; copy it here" in capsys.readouterr().err


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["memory://made/up", f"s3://{BUCKET}/up"])
def test_files_come_and_go_as_in_a_folder(s3: s3fs.S3FileSystem, base: str) -> None:
    """Written, listed, read, copied, removed; what isn't there is no file, no folder, and no error to remove."""
    root = places.parsed(base)
    assert places.names(root) == []
    assert not places.exists(root / "a.json")
    layout.write_json({"é": 1}, root / "a" / "b.json")
    layout.copy_file(root / "a" / "b.json", root / "c.json")
    assert places.names(root) == ["a/b.json", "c.json"]
    assert places.is_folder(root / "a")
    assert places.folders(root) == ["a"]
    assert json.loads(places.text(root / "c.json")) == {"é": 1}
    assert places.size_bytes(root / "c.json") == len(places.content(root / "c.json"))
    assert places.contents(root, ["c.json", "none"]) == {"c.json": places.content(root / "c.json")}
    with pytest.raises(FileExistsError):
        places.create(b"", root / "c.json")
    places.remove(root, ["a/b.json", "c.json", "none"])
    assert places.names(root) == []
    with pytest.raises(FileNotFoundError):
        places.content(root / "c.json")


def test_nothing_half_written_is_sent_or_left(s3: s3fs.S3FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that fails sends nothing, and leaves nothing in the folder for temporary files; no space there is told."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    target = places.parsed(OUT) / "one.bin"
    with pytest.raises(TypeError), layout.temporary_for(target) as temporary:
        temporary.write_bytes("no bytes")  # type: ignore[arg-type]
    with pytest.raises(DiskFull, match=rf"no space left on the disk to write {tmp_path}/vocalgrad-"), layout.temporary_for(target):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    assert s3.find(BUCKET) == []


# -- one at a time ----------------------------------------------------------------------------------------------------


def test_one_build_at_a_time_and_which(s3: s3fs.S3FileSystem) -> None:
    """On this machine, a second one is refused; a lock of another machine is never taken over, and the message says whose it is."""
    out = places.parsed(OUT)
    with resume.locked(out), pytest.raises(VocalgradError, match="another build on this machine is writing to"), resume.locked(out):
        pass
    assert s3.find(BUCKET) == []
    theirs = {"token": "t", "host": "far", "pid": 7, "since": "2026-01-01T00:00:00+00:00"}
    s3.pipe_file(f"{HELD}.partial.lock", json.dumps(theirs).encode())
    expected = rf"process 7 on far, since 2026-01-01.*: wait for it, .*remove its lock, such as with `aws s3 rm {OUT}\.partial\.lock`"
    with pytest.raises(VocalgradError, match=expected), resume.locked(out):
        pass
    assert json.loads(s3.cat_file(f"{HELD}.partial.lock")) == theirs


@pytest.mark.slow
def test_a_lock_whose_owner_was_killed_here_is_taken_over(s3: s3fs.S3FileSystem) -> None:
    """After kill -9 of its owner the next build on this machine has the lock, and leaves none."""
    code = f"""
import os, signal
from builder import places, resume
with resume.locked(places.parsed({OUT!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert s3.exists(f"{HELD}.partial.lock")
    with resume.locked(places.parsed(OUT)):
        assert json.loads(s3.cat_file(f"{HELD}.partial.lock"))["pid"] == os.getpid()
    assert s3.find(BUCKET) == []


# -- the swap ---------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


def killed_at(step: int, do: Callable[[], None], patch: pytest.MonkeyPatch) -> bool:
    """Do something up to its n-th change of the store; whether it came so far."""
    count = [0]
    with patch.context() as patched:
        for name in ("write", "copy", "remove"):
            real = getattr(places, name)

            def counted(*arguments: Any, real: Callable[..., None] = real) -> None:
                count[0] += 1
                if count[0] == step:
                    raise Killed
                real(*arguments)

            patched.setattr(places, name, counted)
        try:
            do()
        except Killed:
            return True
    return False


def dataset(text: str, *shards: str) -> dict[str, bytes]:
    """Files that stand for a dataset's."""
    manifest = json.dumps({"text": text, "recipe": {}, "cells": [], "shards": [{"shard": name} for name in shards]}).encode()
    listed = {f"{place}/{name}{end}": text.encode() for name in shards for place, end in (("data", ".parquet"), ("reports", ".json"))}
    return {**listed, "manifest.json": manifest, "README.md": text.encode()}


def below(root: Path) -> dict[str, bytes]:
    """Everything below a place."""
    return places.contents(root, places.names(root))


STRAY = {"data/p/stray.parquet": b"of a worker that outlived its build"}


@pytest.mark.parametrize("base", ["memory://swapped", pytest.param(f"s3://{BUCKET}/swapped", marks=pytest.mark.slow)])
def test_a_swap_that_is_cut_off_anywhere_ends_right(s3: s3fs.S3FileSystem, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before each of its steps, and recovery killed before each of its own: what has a manifest is whole, and nothing is lost."""
    out = places.parsed(f"{base}/ds")
    partial, mark = resume.partial_of(out), places.parsed(f"{base}/ds{resume.SWAP}")
    old, new = {**dataset("old", "p/one", "p/gone"), "audit/audit.json": b"old"}, dataset("new", "p/one", "p/two")
    step, again, n_cut = 1, 1, 0
    while True:
        for root, put in ((out, old), (partial, {**new, **STRAY})):
            for name, value in put.items():
                places.write(value, root / name)
        if not killed_at(step, lambda: resume.swap(partial, out), monkeypatch):
            break
        n_cut += 1
        marked = places.exists(mark)
        resume.check_replaceable(out)
        cut_again = killed_at(again, lambda: resume.recover(out, lambda line: None), monkeypatch)
        there = below(out)
        assert "manifest.json" not in there or there in (old, new)
        step, again = (step, again + 1) if cut_again else (step + 1, 1)
        said: list[str] = []
        resume.recover(out, said.append)
        assert below(out) == (new if marked else old)
        assert below(partial) == ({} if marked else {**new, **STRAY})
        assert bool(said) == (cut_again and marked)
        places.remove(out.parent, places.names(out.parent))
    assert below(out.parent) == {f"ds/{name}": value for name, value in new.items()}
    assert step > 8
    assert n_cut > 30


def test_other_files_are_not_touched(s3: s3fs.S3FileSystem, capsys: pytest.CaptureFixture[str]) -> None:
    """A prefix with files that are no dataset, a bucket's top, and the Hub are refused before anything is read or made."""
    s3.pipe_file(f"{HELD}/thesis.tex", b"years of work")
    for out, said in (
        (OUT, "holds 1 file, such as thesis.tex, and isn't a dataset built by vocalgrad"),
        (f"s3://{BUCKET}", "names no folder in a bucket: give one, such as s3://made/vocalgrad"),
        ("hf://datasets/me/ds", "a build can't write to the Hub: build to a folder or s3://, then `vocalgrad publish`"),
    ):
        assert run("build", "--recipe", "none.yaml", "--out", out) == 1
        assert said in capsys.readouterr().err
    assert s3.find(BUCKET) == [f"{HELD}/thesis.tex"]


# -- datasets ---------------------------------------------------------------------------------------------------------


def without_audit(found: dict[str, bytes]) -> dict[str, bytes]:
    """All but the audit, and the card that says what it found."""
    return {name: value for name, value in found.items() if not name.startswith(("audit/", "README.md"))}


def test_a_build_into_a_store_has_the_bytes_of_a_folder(s3: s3fs.S3FileSystem, audited: Path) -> None:
    """All files, and nothing beside the dataset is left."""
    pipeline.build(audited.parent / "noise.yaml", None, places.parsed(OUT), Local(1), lambda line: None)
    assert without_audit(objects(s3, HELD)) == without_audit(files(audited))
    assert [name for name in s3.find(BUCKET) if not name.startswith(f"{HELD}/")] == []


@pytest.mark.slow
def test_a_build_in_place_makes_again_only_what_was_harmed(s3: s3fs.S3FileSystem, audited: Path, whole: dict[str, bytes]) -> None:
    """One shard and one report harmed: both are told, the others are copied inside the store, and all bytes are as before."""
    s3.pipe_file(f"{HELD}/data/loudness/train-00000-of-00001.parquet", b"PAR1")
    s3.rm_file(f"{HELD}/reports/loudness/test-00000-of-00001.json")
    said: list[str] = []
    pipeline.build(audited.parent / "noise.yaml", None, places.parsed(OUT), Local(1), said.append)
    assert "resume   2 of 4 shards are already there and whole" in said
    assert "resume   loudness/train-00000-of-00001: its checksum isn't the report's, made again" in said
    assert "resume   loudness/test-00000-of-00001: its report isn't there, made again" in said
    assert without_audit(objects(s3, HELD)) == without_audit(whole)
    assert [name for name in s3.find(BUCKET) if not name.startswith(f"{HELD}/")] == []


def test_what_is_wrong_with_a_shard_is_found(s3: s3fs.S3FileSystem, whole: dict[str, bytes], audited: Path) -> None:
    """A Parquet object that's gone, and a report that's cut short, are told as on a disk."""
    planned, _ = pipeline.load_plan(audited.parent / "noise.yaml", None)
    out, (first, second, *_) = places.parsed(OUT), planned.shards
    s3.rm_file(f"{HELD}/data/{first.name}.parquet")
    s3.pipe_file(f"{HELD}/reports/{second.name}.json", whole[f"reports/{second.name}.json"][:-9])
    assert resume.look(out, first, factory_digest()) == (None, "its Parquet can't be read (No such file)")
    assert resume.look(out, second, factory_digest()) == (None, "its report is cut short or altered")


def test_commands_read_a_dataset_there(
    s3: s3fs.S3FileSystem, whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validated, shown, exported and committed to from the store; a clip is made again from its row; the store isn't changed."""
    one = json.loads(whole["audit/audit.json"])["release"]
    recipe = ROOT / "recipes" / "synthesis.yaml"
    assert run("validate", "--dataset", OUT, "--workers", "1") == 0
    assert f"{OUT}: 9 rows, 0 faults" in capsys.readouterr().out
    assert run("export", "--dataset", OUT, "--as", "jsonl", "--to", tmp_path / "lines") == 0
    row = json.loads((tmp_path / "lines" / "test.jsonl").read_text().splitlines()[0])
    assert run("render", row["id"], "--dataset", OUT, "--recipe", recipe, "--to", tmp_path / "a.flac") == 0
    assert (tmp_path / "a.flac").read_bytes() == (tmp_path / "lines" / row["audio"]).read_bytes()
    assert run("show", "loudness", "--dataset", OUT, "--recipe", recipe, "--to", tmp_path / "a.png") == 0
    assert run("commit-split", "--dataset", OUT, "--out", tmp_path / "promise.json") == 0
    assert objects(s3, HELD) == whole
    capsys.readouterr()
    assert run("publish", "me/ds", "--dataset", OUT) == 1
    assert f"publish sends files of this machine: copy {OUT} here, such as with `aws s3 sync`" in capsys.readouterr().err
    assert one == "0.1.0+seed.1"


def test_faults_of_a_dataset_there_are_found(s3: s3fs.S3FileSystem, whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """A shard that's gone, one that's damaged and one that isn't listed are each told; a place without a manifest is no dataset."""
    s3.rm_file(f"{HELD}/data/loudness/train-00000-of-00001.parquet")
    s3.pipe_file(f"{HELD}/data/loudness/validation-00000-of-00001.parquet", b"PAR1 and nothing else")
    s3.pipe_file(f"{HELD}/data/loudness/other.parquet", b"x")
    assert run("validate", "--dataset", OUT, "--workers", "1") == 1
    said = capsys.readouterr().out
    assert "data/loudness/train-00000-of-00001.parquet: listed in the manifest and not there" in said
    assert "loudness/validation-00000-of-00001: the checksum isn't the manifest's" in said
    assert "loudness/validation-00000-of-00001: can't be read:" in said
    assert "data/loudness/other.parquet: there and not listed in the manifest" in said
    assert run("validate", "--dataset", f"{OUT}-none") == 1
    assert f"no dataset at {OUT}-none" in capsys.readouterr().err


@pytest.mark.slow
def test_workers_see_what_fsspec_is_told(s3: s3fs.S3FileSystem, whole: dict[str, bytes], endpoint: str) -> None:
    """Keys and endpoint that are only in fsspec's own variables reach two worker processes."""
    told = {
        "FSSPEC_S3_KEY": KEYS["AWS_ACCESS_KEY_ID"],
        "FSSPEC_S3_SECRET": KEYS["AWS_SECRET_ACCESS_KEY"],
        "FSSPEC_S3_ENDPOINT_URL": endpoint,
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-m", "builder", "validate", "--dataset", OUT, "--workers", "2"]
    env |= {**told, "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{OUT}: 9 rows, 0 faults" in done.stdout


@pytest.mark.slow
def test_a_single_shard_is_made_there_and_kept(s3: s3fs.S3FileSystem, audited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`shard` writes one to the unfinished build; the build keeps it. A bucket's top is no place for one."""
    recipe, name = audited.parent / "noise.yaml", "loudness/train-00000-of-00001"
    assert run("shard", name, "--recipe", recipe, "--out", f"s3://{BUCKET}") == 1
    assert "names no folder in a bucket" in capsys.readouterr().err
    assert run("shard", name, "--recipe", recipe, "--out", OUT) == 0
    assert s3.find(BUCKET) == [f"{HELD}.partial/data/{name}.parquet", f"{HELD}.partial/reports/{name}.json"]
    planned, _ = pipeline.load_plan(recipe, None)
    mine = next(item for item in planned.shards if item.name == name)
    report, fault = resume.look(resume.partial_of(places.parsed(OUT)), mine, factory_digest())
    assert (report is not None, fault) == (True, None)


# -- no answer, or no --------------------------------------------------------------------------------------------------


def test_a_bucket_that_is_not_there_is_told(s3: s3fs.S3FileSystem, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading and building say that there's no such bucket, and make none."""
    for command in (["validate", "--dataset"], ["build", "--recipe", "none.yaml", "--out"]):
        assert run(*command, "s3://nowhere-made/ds") == 1
        assert "s3://nowhere-made/ds" in (said := capsys.readouterr().err)
        assert "there is no such bucket: create it, or check its name and AWS_ENDPOINT_URL" in said
    assert s3.ls("") == [BUCKET]


def test_access_denied_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """403 is no missing file: the message says so, and which variables hold the keys, not the keys."""
    with Answer("403 Forbidden", "AccessDenied") as server:
        at(server.endpoint, monkeypatch)
        for command in (["validate", "--dataset"], ["build", "--recipe", "none.yaml", "--out"]):
            assert run(*command, OUT) == 1
            assert "access denied" in (said := capsys.readouterr().err)
            assert "AWS_ACCESS_KEY_ID" in said
            assert KEYS["AWS_SECRET_ACCESS_KEY"] not in said
        server.shutdown()
    s3fs.S3FileSystem.clear_instance_cache()


def test_no_credentials_are_told(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without keys the message says how to set them."""
    at(endpoint, monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert run("validate", "--dataset", OUT) == 1
    assert "no credentials" in (said := capsys.readouterr().err)
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in said


@pytest.mark.slow
def test_no_server_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens: after the client's own tries, where it called and what to check."""
    at("http://127.0.0.1:9", monkeypatch)
    assert run("build", "--recipe", "none.yaml", "--out", OUT) == 1
    said = capsys.readouterr().err
    assert "no answer (Could not connect to the endpoint URL" in said
    assert "check the network and AWS_ENDPOINT_URL, and run the same command again" in said
    s3fs.S3FileSystem.clear_instance_cache()


# -- corpora ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [pytest.param(name, marks=[pytest.mark.slow] * (name != "vctk-0.92")) for name in SPEECH_SHAPES])
def test_a_corpus_in_a_store_is_the_one_in_a_folder(tmp_path: Path, s3: s3fs.S3FileSystem, shape: str) -> None:
    """Of each layout: recordings, texts, refusals, and what each file's bytes are."""
    here = corpora.load(corpus(tmp_path, shape))
    s3.put(str(tmp_path / "corpus"), f"{BUCKET}/corpus", recursive=True)
    entries = [{**entry, "folder": f"s3://{BUCKET}/corpus"} for entry in SHAPES[shape][1]]
    there = corpora.load(recipe_of(tmp_path, entries, "there"))
    assert there.recordings == here.recordings
    assert there.refused == here.refused
    assert set(there.stamps) == set(there.location)


@pytest.mark.slow
def test_a_survey_of_a_store_finds_the_same(tmp_path: Path, s3: s3fs.S3FileSystem) -> None:
    """Cuts, checksums, bandwidths and refusals of damaged files, and of one that's listed and gone, are those of the folder."""
    corpus(tmp_path, "table")
    first, second, third = sorted((tmp_path / "corpus").rglob("*.wav"))[:3]
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    second.write_bytes(b"")
    third.unlink()
    s3.put(str(tmp_path / "corpus"), f"{BUCKET}/corpus", recursive=True)
    found = []
    for folder in ("corpus", f"s3://{BUCKET}/corpus"):
        loaded = corpora.load(recipe_of(tmp_path, [{"folder": folder, "table": "table.csv"}]))
        found.append(survey(loaded, RULE, 16_000))
    assert found[0] == found[1]
    assert found[0].refused == {"unreadable": 3}


def plan_of(folder: Path, root: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plan of speech from a corpus that lies somewhere, with an empty cache."""
    monkeypatch.setenv("VOCALGRAD_CACHE", str(folder / f"cache-{len(root)}"))
    monkeypatch.setenv("MADE", root)
    recipe_of(folder, [{**SHAPES["vctk-0.80"][1][0], "folder": "${MADE}"}])
    (folder / "recipe.yaml").write_text(SPEECH_RECIPE)
    return pipeline.load_plan(folder / "recipe.yaml", None)[0]


def test_a_plan_does_not_know_where_a_corpus_lies(tmp_path: Path, s3: s3fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder, `file://` and `s3://`, named by a variable: one plan, and a second one from what was kept of the first."""
    corpus(tmp_path, "vctk-0.80")
    s3.put(str(tmp_path / "corpus"), f"{BUCKET}/corpus", recursive=True)
    here = plan_of(tmp_path, str(tmp_path / "corpus"), monkeypatch)
    assert plan_of(tmp_path, f"file://{tmp_path}/corpus", monkeypatch).digest == here.digest
    assert plan_of(tmp_path, f"s3://{BUCKET}/corpus", monkeypatch).digest == here.digest
    assert plan_of(tmp_path, f"s3://{BUCKET}/corpus", monkeypatch).digest == here.digest


@pytest.mark.parametrize(
    ("root", "said"),
    [
        (f"s3://{BUCKET}/none", rf"s3://{BUCKET}/none: no such folder there"),
        ("s3://nowhere-made/none", "there is no such bucket"),
        ("gopher://x/y", "the protocol gopher:// isn't known"),
        ("s3://a:b@c/d", "no name or password may stand in a URL"),
        ("hf://datasets/me/made@main/x", "with a commit of 40 hexadecimal digits"),
        ("hf://datasets/me/made", "with a commit of 40 hexadecimal digits"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_told(tmp_path: Path, s3: s3fs.S3FileSystem, root: str, said: str) -> None:
    """What is missing or wrong, as of a folder: a corpus that can't be had, with what to do instead."""
    path = recipe_of(tmp_path, [{**SHAPES["files"][1][0], "folder": root}])
    with pytest.raises(CorpusUnavailable, match=said):
        corpora.load(path)


@pytest.mark.parametrize(
    ("key", "said"), [("archive", "archives are read on this machine"), ("dataset", "a dataset's columns are read from")]
)
def test_what_is_not_read_from_a_store_says_so(
    tmp_path: Path, s3: s3fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch, key: str, said: str
) -> None:
    """Archives and datasets' columns."""
    monkeypatch.setenv("MADE", f"s3://{BUCKET}/x")
    entry = {**SHAPES["files" if key == "archive" else "vctk-hub"][1][0], key: "${MADE}"}
    entry.pop("folder", None)
    with pytest.raises(CorpusUnavailable, match=said):
        corpora.load(recipe_of(tmp_path, [entry]))


# -- whole builds by the command ---------------------------------------------------------------------------------------


def begin(folder: Path, out: str, workers: int, **environment: str) -> subprocess.Popen[str]:
    """A build of many small shards in a session of its own."""
    (folder / "killed.yaml").write_text(KILLED.format(recipes=ROOT / "recipes"))
    command = [sys.executable, "-m", "builder", "build", "--recipe", "killed.yaml", "--out", out, "--workers", str(workers)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def ended(running: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    """What a build said, once it ended as it should."""
    said, errors = running.communicate(timeout=300)
    assert running.returncode == status, errors
    assert "Traceback" not in errors
    return said, errors


def until_reports(s3: s3fs.S3FileSystem, running: subprocess.Popen[str], count: int) -> None:
    """Wait until a build has finished some shards."""
    while running.poll() is None and len(s3.find(f"{HELD}.partial/reports")) < count:
        time.sleep(0.05)
    assert running.poll() is None


@pytest.fixture
def unbroken(tmp_path: Path) -> dict[str, bytes]:
    """The same dataset, built and audited in a folder by one command."""
    ended(begin(tmp_path, f"file://{tmp_path}/unbroken", 2))
    return files(tmp_path / "unbroken")


@pytest.mark.slow
def test_a_build_killed_in_a_store_goes_on(tmp_path: Path, s3: s3fs.S3FileSystem, unbroken: dict[str, bytes]) -> None:
    """kill -9 after some shards; another worker count; all files, audit and card too, are those of an unbroken build to file://."""
    running = begin(tmp_path, OUT, 2)
    until_reports(s3, running, 2)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    said, _ = ended(begin(tmp_path, OUT, 1))
    kept = re.search(r"resume   (\d+) of \d+ shards are already there and whole", said)
    assert kept is not None
    assert int(kept[1]) >= 2
    assert objects(s3, HELD) == unbroken
    assert [name for name in s3.find(BUCKET) if not name.startswith(f"{HELD}/")] == []
    ended(begin(tmp_path, OUT, 3))
    assert objects(s3, HELD) == unbroken


@pytest.mark.slow
def test_a_line_that_is_cut_keeps_what_was_finished(
    tmp_path: Path, endpoint: str, s3: s3fs.S3FileSystem, unbroken: dict[str, bytes]
) -> None:
    """The network goes in the middle: exit 1 with where and what to do; with the network again, the same bytes."""
    with Line(endpoint) as line:
        running = begin(tmp_path, OUT, 2, AWS_ENDPOINT_URL=line.endpoint, AWS_MAX_ATTEMPTS="1")
        until_reports(s3, running, 2)
        line.cut = True
        _, errors = ended(running, 1)
        assert re.search(
            rf"vocalgrad build: {OUT}\.partial\S*: no answer \(.*run the same command again: what was finished is kept", errors
        )
        line.cut = False
        said, _ = ended(begin(tmp_path, OUT, 1, AWS_ENDPOINT_URL=line.endpoint))
        assert "shards are already there and whole" in said
        line.shutdown()
    assert objects(s3, HELD) == unbroken


@pytest.mark.slow
def test_a_corpus_on_the_hub_is_read_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build whose corpus is `hf://` at a commit has the bytes of one whose corpus is a folder."""
    corpus(tmp_path, "vctk-0.80")
    (tmp_path / "recipe.yaml").write_text(SPEECH_RECIPE)
    command = "import sys; from builder.__main__ import main; sys.exit(main(sys.argv[1:]))"
    send = """
import sys
from huggingface_hub import HfApi
HfApi().create_repo("acme/made", repo_type="dataset")
print(HfApi().upload_folder(repo_id="acme/made", repo_type="dataset", folder_path=sys.argv[1], path_in_repo="corpus").oid)
"""
    with serving(tmp_path, page=7) as hub:
        sent = hub.python(send, str(tmp_path / "corpus"))
        assert sent.status == 0, sent.err
        roots = {"here": str(tmp_path / "corpus"), "there": f"hf://datasets/acme/made@{sent.out.split()[-1]}/corpus"}
        for name, root in roots.items():
            recipe_of(tmp_path, [{**SHAPES["vctk-0.80"][1][0], "folder": root}])
            done = hub.python(
                command, "build", "--recipe", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / name), "--workers", "2",
                VOCALGRAD_CACHE=str(tmp_path / f"cache-{name}"), timeout_s=300,
            )  # fmt: skip
            assert (tmp_path / name / "manifest.json").is_file(), done.err
        recipe_of(tmp_path, [{**SHAPES["vctk-0.80"][1][0], "folder": f"hf://datasets/acme/gone@{'0' * 40}/corpus"}])
        none = hub.python(command, "sources", "--recipe", str(tmp_path / "recipe.yaml"), VOCALGRAD_CACHE=str(tmp_path / "cache"))
        assert none.status == 1
        assert f"hf://datasets/acme/gone@{'0' * 40}/corpus: no such folder there" in none.err
    assert files(tmp_path / "here") == files(tmp_path / "there")
