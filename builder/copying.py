"""How a whole dataset takes the place of an old one where no folder can be renamed: an object store, a mount, the working folder.

A mark, `<out>.partial.swap`, says that what lies in `<out>.partial` is whole and valid; then the old manifest goes, which makes the old
dataset none; the new files are copied, those that the new one doesn't have are removed, and its manifest comes last. Only when the mark
says that all is copied, what is in `<out>.partial` is removed. Cut off anywhere, the next build goes on from the mark.
A shard that the manifest doesn't list, from a worker that outlived its build, stays behind.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from builder import places
from builder.layout import copy_file

MANIFEST = "manifest.json"
COPYING, COPIED = b"copying\n", b"copied\n"
"""What the mark says; cut short it's taken for the first, which is never wrong."""

Say = Callable[[str], None]


def swap(partial: Path, out: Path, mark: Path) -> None:
    """Put a whole dataset in the place of the old one; where it's cut off, `recover` goes on."""
    places.write(COPYING, mark)
    _copy_all(partial, out)
    places.write(COPIED, mark)
    _clean(partial, mark)


def recover(partial: Path, out: Path, mark: Path, say: Say) -> None:
    """Go on with a swap that was cut off."""
    try:
        said = places.content(mark)
    except FileNotFoundError:
        return
    if said != COPIED:
        _copy_all(partial, out)
        places.write(COPIED, mark)
    _clean(partial, mark)
    say(f"resume   {out} was just being replaced when a build was cut off: finished, it's the dataset that was whole then")


def _copy_all(partial: Path, out: Path) -> None:
    shards = [item["shard"] for item in json.loads(places.content(partial / MANIFEST))["shards"]]
    listed = {f"{folder}/{name}{ending}" for name in shards for folder, ending in (("data", ".parquet"), ("reports", ".json"))}
    wanted = [name for name in places.names(partial) if name in listed or not name.startswith(("data/", "reports/"))]
    places.remove(out, [MANIFEST])
    for name in wanted:
        if name != MANIFEST:
            copy_file(partial / name, out / name)
    places.remove(out, sorted(set(places.names(out)) - set(wanted)))
    copy_file(partial / MANIFEST, out / MANIFEST)


def _clean(partial: Path, mark: Path) -> None:
    if places.is_remote(partial):
        places.remove(partial, places.names(partial))
    else:
        shutil.rmtree(partial, ignore_errors=True)
    places.remove(mark.parent, [mark.name])
