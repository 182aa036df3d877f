"""Is what lies here ready to be a release? The changelog, the working tree, and the dataset that was built from it.

Scores on two versions of a dataset can only be compared by who knows which labels moved between them. So a version isn't ready before
`CHANGELOG.md` says so, in a section of its own:

    ## 0.2.0, 2027-01-31

    Labels moved: 12 of 456 test clips of pitch, whose witness is another now.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from builder import places
from builder.commands import command
from builder.errors import NotPublished, VocalgradError
from builder.factory import factory_digest
from builder.layout import read_manifest
from builder.recipe import Recipe
from builder.release import MANIFEST, faults, tag_of

CHANGELOG = "CHANGELOG.md"
SECTION = re.compile(r"^## ", re.M)
LABELS_MOVED = re.compile(r"^Labels moved:[ \t]*\S", re.M)
UNPUBLISHED = "not published yet"
MAX_FILES = 5


def check(source: Path, path: Path, recipe: Recipe, dataset: Path) -> list[str]:
    """Check a version.

    Parameters
    ----------
    source
        The working tree.
    path, recipe
        What is to be released, its file and what's in it: its version counts.
    dataset
        Folder of the dataset, if it's built.

    Returns
    -------
    list of str
        What was found, and the commands to go on with; lines for people.

    Raises
    ------
    NotPublished
        Something is missing: every fault at once, with what to do.
    """
    built = places.exists(dataset / MANIFEST)
    mine = ("--recipe", path, "--dataset", dataset)
    build = command("build", "--recipe", path, "--out", dataset)
    found = [*changelog_faults(source, recipe.version), *tree_faults(source)]
    found += dataset_faults(dataset, recipe, f"run `{build}`") if built else []
    if found:
        raise NotPublished(f"version {recipe.version} can't be released:\n" + "\n".join(f"  {fault}" for fault in found))
    said = [f"{CHANGELOG} tells of {recipe.version}, and the working tree is clean."]
    if not built:
        return [*said, f"{dataset}/ isn't built. Next:", f"  {build}", f"  {command('release-check', *mine)}"]
    manifest = read_manifest(dataset)
    return [
        *said,
        f"{dataset}/ is release {manifest['release']}, made by this code from this recipe, and its audit passed. Next:",
        f"  {command('publish', 'org/name', '--dataset', dataset, '--dry-run')}",
        f"  {command('publish', 'org/name', '--dataset', dataset)}",
        f"  {command('pull-check', f'org/name@{tag_of(manifest)}')}",
        f"  git tag v{recipe.version}",
    ]


def changelog_faults(source: Path, version: str) -> Iterator[str]:
    """Whether the changelog says of a version that it's published and which labels moved."""
    try:
        text = (source / CHANGELOG).read_text(encoding="utf-8")
    except FileNotFoundError:
        yield f"{CHANGELOG}: not in {source}: run this in the folder of the source, or name it with --source"
        return
    mine = [found for found in SECTION.split(text)[1:] if found.split("\n")[0].split(",")[0].strip() == version]
    if not mine:
        yield f"{CHANGELOG}: no section '## {version}': write one, with what changed and a line 'Labels moved: ...'"
    for section in mine:
        if not LABELS_MOVED.search(section):
            yield f"{CHANGELOG}: section {version} has no line 'Labels moved: ...': say which labels moved and why, or 'none' and why not"
        if UNPUBLISHED in section.split("\n")[0]:
            yield f"{CHANGELOG}: section {version} says '{UNPUBLISHED}': write the day of the release instead"


def tree_faults(source: Path) -> Iterator[str]:
    """Whether everything in the working tree is committed."""
    command = ["git", "-C", str(source), "status", "--porcelain", "--untracked-files=normal"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        yield "git: not installed: what is released must be a commit, and that can't be told without it"
        return
    if done.returncode:
        yield f"{source}: not a git repository: release from a clone, so that the code of a version can be found again"
        return
    changed = [line[3:] for line in done.stdout.splitlines()]
    if changed:
        more = f", and {len(changed) - MAX_FILES} more" if len(changed) > MAX_FILES else ""
        yield f"the working tree isn't clean: commit or put away {', '.join(changed[:MAX_FILES])}{more}"


def dataset_faults(root: Path, recipe: Recipe, again: str) -> Iterator[str]:
    """Whether a built dataset is this version, made from this recipe by this code, and passed its audit; `again` says what to do if not."""
    try:
        manifest = read_manifest(root)
        tag_of(manifest)
    except VocalgradError as error:
        yield f"{root}: {error}"
        return
    if manifest.get("version") != recipe.version:
        yield f"{root}: it's of version {manifest.get('version')}, the recipe of {recipe.version}: {again}"
    elif manifest.get("recipe_sha256") != recipe.digest:
        yield f"{root}: it was built from another recipe, or this one has changed: name its recipe, or {again}"
    elif not _made_by_this_code(root, [item["shard"] for item in manifest["shards"]]):
        yield f"{root}: it was made by other code or packages than are here: {again}"
    yield from (f"{root}/{fault}" for fault in faults(root, manifest))


def _made_by_this_code(root: Path, shards: list[str]) -> bool:
    """Whether every shard's report carries the digest of the code and packages that are here; a report that's gone is another fault."""
    found = places.contents(root / "reports", [f"{name}.json" for name in shards])
    return all(json.loads(content).get("factory_digest") == factory_digest() for content in found.values())
