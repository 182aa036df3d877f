"""A good citizen of its machine: the cores it may use, the files it leaves, the network it doesn't touch, and homes that are none."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from builder import SENDS_NOTHING, fetch, surveys
from builder.__main__ import main
from builder.errors import CorpusUnavailable

ROOT = Path(__file__).parent.parent
CORES = [sys.executable, "-c", "from builder import engines; print(engines.n_cores())"]


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """A command in the folder of the source."""
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=False)


def test_workers_are_counted_by_affinity() -> None:
    """On one core there's one, however many the machine has."""
    one = str(min(os.sched_getaffinity(0)))
    assert run(["taskset", "-c", one, *CORES]).stdout == "1\n"


@pytest.mark.parametrize(
    "files",
    [{"cpu.max": "100000 100000"}, {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}],
    ids=["version 2", "version 1"],
)
def test_workers_are_counted_by_quota(files: dict[str, str]) -> None:
    """A control group that may use one core's time has one worker; groups are made up in a name space of mounts."""
    written = "; ".join(f"mkdir -p /sys/fs/cgroup/{Path(name).parent}; echo {text} > /sys/fs/cgroup/{name}" for name, text in files.items())
    script = f'mount -t tmpfs tmpfs /sys/fs/cgroup || exit 77; {written}; exec "$@"'
    done = run(["unshare", "--mount", "sh", "-c", script, "sh", *CORES])
    if "ermitted" in done.stderr or done.returncode == 77:
        pytest.skip("only root has name spaces of mounts")
    assert done.stdout == "1\n", done.stderr


# -- what is left behind and sent -------------------------------------------------------------------------------------

WATCHED = """\
import os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["WATCHED"], "a") as stream:
            stream.write(f"{os.getpid()} {event} {arguments[1:] if event.startswith('socket.c') else arguments}\\n")
        raise OSError("no network here")

sys.addaudithook(watch)
"""
SPEECH = """\
include: {recipes}/base.yaml
speech: {{corpus: {recipes}/corpora/embedded.yaml}}
dimension: pitch
tiers: {{medium: 6.0}}
curves: [linear]
pairs_per_cell: {{train: 1, validation: 1, test: 1}}
controls_per_kind: {{train: 0, validation: 0, test: 1}}
sources:
  - {{kind: speech}}
"""


def test_libraries_are_told_to_send_nothing_before_they_start(tmp_path: Path) -> None:
    """onnxruntime with a session leaves no file in an empty home, where it would write an identifier of the machine."""
    code = "from builder.acoustics import trackers; trackers._swift()"
    environment = {name: value for name, value in os.environ.items() if name not in SENDS_NOTHING}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_a_build_touches_no_network_and_leaves_nothing_at_home(tmp_path: Path) -> None:
    """With a corpus in the cache, two workers and the audit: no process asks for a connection or an address; only fonts are listed."""
    home, watched = tmp_path / "home", tmp_path / "watched.txt"
    home.mkdir()
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(WATCHED)
    (tmp_path / "speech.yaml").write_text(SPEECH.format(recipes=ROOT / "recipes"))
    cache = fetch.cache_dir()
    recipe, out = str(tmp_path / "speech.yaml"), str(tmp_path / "ds")
    assert main(["plan", "--recipe", recipe, "--workers", "2"]) == 0  # the corpus is in the cache
    made = run(
        [sys.executable, "-m", "builder", "build", "--recipe", recipe, "--out", out, "--workers", "2"],
        HOME=str(home), XDG_CACHE_HOME="", VOCALGRAD_CACHE=str(cache), WATCHED=str(watched), PYTHONPATH=f"{tmp_path / 'hook'}:{ROOT}",
    )  # fmt: skip
    assert (tmp_path / "ds" / "audit" / "report.html").is_file(), made.stderr
    assert not watched.exists(), watched.read_text()
    assert {path.parent.name for path in home.rglob("*") if path.is_file()} <= {"matplotlib"}


# -- homes ------------------------------------------------------------------------------------------------------------


def test_the_home_is_the_users_where_no_variable_says_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HOME that's empty or not set is that of the user, XDG_CACHE_HOME and VOCALGRAD_CACHE come first."""
    for name in ("VOCALGRAD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    user = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "vocalgrad"
    assert fetch.cache_dir() == user
    for name, value, expected in (
        ("HOME", "", user),
        ("HOME", "/h", Path("/h/.cache/vocalgrad")),
        ("XDG_CACHE_HOME", "/x", Path("/x/vocalgrad")),
        ("VOCALGRAD_CACHE", "/v", Path("/v")),
    ):
        monkeypatch.setenv(name, value)
        assert fetch.cache_dir() == expected


def test_a_user_without_a_home_is_told_of_the_variable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No HOME, and an identifier that no list of users has: what is fetched has no place; what needs none goes on."""

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("VOCALGRAD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert surveys._place() is None
    assert main(["plan", "--recipe", str(ROOT / "recipes" / "smoke.yaml"), "--workers", "1"]) == 1
    said = capsys.readouterr().err
    assert f"HOME isn't set, and user {os.getuid()} has none: set VOCALGRAD_CACHE to a folder" in said
    assert main(["plan", "--recipe", str(ROOT / "recipes" / "synthesis.yaml"), "--workers", "1"]) == 0


def test_a_home_that_cannot_be_written_in_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder that can't be made, and the variable that names another; surveys go on without theirs."""
    monkeypatch.setenv("VOCALGRAD_CACHE", "/proc/none/vocalgrad")
    assert surveys._place() is None
    assert main(["plan", "--recipe", str(ROOT / "recipes" / "smoke.yaml"), "--workers", "1"]) == 1
    said = capsys.readouterr().err
    assert "/proc/none/vocalgrad/files: can't be written in (No such file or directory): set VOCALGRAD_CACHE to a folder" in said
    with pytest.raises(CorpusUnavailable):
        fetch.folder_in_cache(Path("/proc/none"))


def test_the_environment_is_clean_of_reports() -> None:
    """Importing the package is enough, whatever the environment said before."""
    code = f"import json, os, builder; print(json.dumps({{name: os.environ[name] for name in {list(SENDS_NOTHING)}}}))"
    assert json.loads(run([sys.executable, "-c", code], ORT_DISABLE_TELEMETRY="0").stdout) == SENDS_NOTHING
