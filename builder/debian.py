"""Debian packages, fetched as data through `apt-get download`: nothing is installed, and none of their scripts run.

A `.deb` is an `ar` archive (`man 5 deb`): its member `data.tar.*` holds the files.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from builder.errors import CorpusUnavailable
from builder.fetch import cache_dir, extract_all, folder_in_cache, is_unpacked, sha256_of

AR_MAGIC = b"!<arch>\n"
AR_HEADER = 60
READABLE = ("data.tar", "data.tar.gz", "data.tar.xz", "data.tar.bz2")


def fetch(package: str, version: str, sha256: str) -> Path:
    """A Debian package, from the cache or through apt's configured sources.

    Parameters
    ----------
    package, version
        As apt names them.
    sha256
        The file's checksum, hexadecimal; anything else that arrives is thrown away.

    Returns
    -------
    Path
        The `.deb`, in the cache.

    Raises
    ------
    CorpusUnavailable
        There's no apt, it doesn't offer that version, or the checksum differs.
    """
    target = cache_dir() / "files" / f"{package}_{version.replace(':', '%3a')}.deb"
    if target.exists() and sha256_of(target) == sha256:
        return target
    if shutil.which("apt-get") is None:
        raise CorpusUnavailable(f"{package} {version}: no apt-get on this machine; put the package there as {target}")
    folder_in_cache(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = ["apt-get", "download", "--quiet", f"{package}={version}"]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        arrived = sorted(Path(folder).glob("*.deb"))
        if said.returncode != 0 or not arrived:
            why = next((line for line in said.stderr.splitlines() if line.startswith("E:")), "nothing arrived")
            raise CorpusUnavailable(f"{package} {version}: apt-get download: {why.removeprefix('E: ')}")
        found = sha256_of(arrived[0])
        if found != sha256:
            raise CorpusUnavailable(f"{package} {version}: sha256 is {found}, {sha256} is needed")
        arrived[0].replace(target)
    return target


def unpack(package: Path, into: Path) -> None:
    """Extract every regular file of a package; what was extracted whole before, and hasn't changed since, is kept.

    Parameters
    ----------
    package
        The `.deb`.
    into
        Folder that belongs to this package alone.

    Raises
    ------
    CorpusUnavailable
        It isn't a Debian package, is cut short, or is packed in a way that Python can't read.
    """
    if is_unpacked(into):
        return
    with tempfile.TemporaryDirectory(dir=package.parent) as folder:
        archive = Path(folder) / f"{package.name} data.tar"
        archive.write_bytes(_data(package))
        extract_all(archive, into)


def _data(package: Path) -> bytes:
    """The tar archive with a package's files."""
    with package.open("rb") as stream:
        if stream.read(len(AR_MAGIC)) != AR_MAGIC:
            raise CorpusUnavailable(f"{package.name}: isn't a Debian package")
        while header := stream.read(AR_HEADER):
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), header[48:58].strip()
            if not size.isdigit():
                break
            if name.startswith("data.tar"):
                if name not in READABLE:
                    raise CorpusUnavailable(f"{package.name}: {name} can't be unpacked here; readable are {', '.join(READABLE)}")
                return stream.read(int(size))
            stream.seek(int(size) + int(size) % 2, 1)
    raise CorpusUnavailable(f"{package.name}: no data.tar in it")
