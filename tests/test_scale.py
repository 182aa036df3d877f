"""All at once: workers of a dask cluster, output in an object store, and one worker that's killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stores import BUCKET, at, client, files, objects, store
from test_dask import both_there, finished, scheduler_in, until, worker_of
from test_resume import KILLED

ROOT = Path(__file__).parent.parent
OUT = f"s3://{BUCKET}/ds"


def begin(recipe: Path, out: str, *options: str) -> subprocess.Popen[str]:
    """A build by the command, in a session of its own."""
    command = [sys.executable, "-m", "builder", "build", "--recipe", recipe.name, "--out", out, *options]
    return subprocess.Popen(
        command,
        cwd=recipe.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_a_cluster_that_builds_into_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is that of a build by one process into a folder, though a worker is killed in the middle of a shard."""
    recipe = tmp_path / "killed.yaml"
    recipe.write_text(KILLED.format(recipes=ROOT / "recipes"))
    finished(begin(recipe, "alone", "--workers", "1"))
    with store() as endpoint:
        at(endpoint, monkeypatch)
        s3 = client(endpoint)
        with scheduler_in(tmp_path) as file, worker_of(file, "one") as first, worker_of(file, "two"):
            both_there(file)
            running = begin(recipe, OUT, "--engine", "dask", "--scheduler", str(file))
            until(lambda: s3.find(f"{BUCKET}/ds.partial/reports"))
            os.killpg(first.pid, signal.SIGKILL)
            said = finished(running)
        assert "it's done once more by another" in said
        assert objects(s3, f"{BUCKET}/ds") == files(tmp_path / "alone")
