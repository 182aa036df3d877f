"""Where datasets and corpora lie: folders of this machine, or prefixes of an object store, through fsspec.

A place is typed as `pathlib.Path`. A remote one is a `upath.UPath`, which has the same methods, so that nearly all code is one path for
both; only what an object store does otherwise is here: files that appear whole or not at all, listings by one request in place of one
for each file, and errors that say what to do. `file://` is a folder of this machine. Endpoint, region and keys come from the
environment or fsspec's configuration, never from a URL.
"""

from __future__ import annotations

import glob
import io
import logging
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from builder.errors import StoreFault
from builder.spelling import composed

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
EXTRAS = {"s3": "vocalgrad[s3]", "s3a": "vocalgrad[s3]"}
"""Protocol -> what to install for it."""
UNLISTED = ("http", "https", "data", "ftp")
"""Protocols of which a folder can't be listed or read as one."""
SNAPSHOT = re.compile(r"(.*/(?:datasets|models)--[^/]+)/snapshots/[^/]+/")
"""A folder of the Hub's cache, up to the repository in it."""
MAGIC = re.compile(r"[][*?$]|::")
"""What `datasets` doesn't take literally in a path."""
AT_ONCE = 500
"""Small files that are read at once."""
FOREIGN = ("aiobotocore", "aiohttp", "asyncio", "botocore", "httpcore2", "httpx2", "huggingface_hub", "s3fs")
"""Packages whose exceptions are a store's answer, or that there was none."""
STAMPS = ("size", "ETag", "LastModified", "blob_id", "generation", "mtime", "created")
"""What changes in a listing when a file is replaced."""
CREDENTIALS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or another way of AWS's own tools"

# -- names ------------------------------------------------------------------------------------------------------------


def is_url(text: str) -> bool:
    """Whether a text is a URL, and not a path."""
    return "://" in text


def parsed(text: str) -> Path:
    """A place from a path or URL.

    Raises
    ------
    StoreFault
        The protocol isn't known, or its package isn't installed; or the URL holds a password.
    """
    if not is_url(text):
        return Path(text)
    found = URL.match(text)
    shown = without_secrets(text)
    if found is None:
        raise StoreFault(f"{shown} isn't a path or URL that is understood, such as vocalgrad or s3://bucket/vocalgrad")
    protocol, parts = found[1].lower(), urlsplit(text)
    user = parts.netloc.rpartition("@")[0]
    if user and (":" in user or protocol in (*EXTRAS, *UNLISTED, "file")):
        raise StoreFault(f"{shown}: no name or password may stand in a URL: set {CREDENTIALS}")
    if protocol == "file":
        if parts.netloc not in ("", "localhost"):
            raise StoreFault(f"{shown} names another machine; write file:///folder for a folder of this one")
        return Path(unquote(text[len("file://") :].removeprefix(parts.netloc)))
    if protocol in UNLISTED:
        raise StoreFault(f"{shown}: files under {protocol}:// can't be listed; copy them to a folder or an object store")
    return _remote(protocol, text.rstrip("/"))


def _remote(protocol: str, url: str) -> Path:
    import fsspec
    from upath import UPath

    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        needed = f"pip install '{EXTRAS[protocol]}'" if protocol in EXTRAS else str(error).splitlines()[0]
        raise StoreFault(f"{url}: what reads and writes {protocol}:// isn't installed: {needed}") from error
    except ValueError as error:
        raise StoreFault(f"{url}: the protocol {protocol}:// isn't known; s3://, hf:// (reading) and file:// are") from error
    options: dict[str, Any] = (
        {} if protocol == "hf" else {"use_listings_cache": False}
    )  # what others write must be seen; a commit of the Hub never changes
    return cast(Path, UPath(url, **options))


def without_secrets(text: str) -> str:
    """A text with no name or password in its URLs."""
    return re.sub(r"://[^/\s]*:[^/\s]*@", "://", text)


def is_remote(path: Path) -> bool:
    """Whether a place is in an object store."""
    return not isinstance(path, Path)


def whole(path: Path) -> Path:
    """A place whatever the working directory becomes, links followed."""
    return path if is_remote(path) else Path(os.path.realpath(path))


def _at(path: Path) -> tuple[Any, str]:
    """File system and name in it of a remote place."""
    _quieten()
    remote: Any = path
    return remote.fs, remote.path


@cache
def _quieten() -> None:
    """Keep out of the log what a store's client says of its own tasks: the call that failed raises it as well."""
    logging.getLogger("asyncio").addFilter(lambda record: not (record.exc_info and _is_foreign(record.exc_info[1])))


def _is_foreign(error: BaseException | None) -> bool:
    return type(error).__module__.split(".")[0] in FOREIGN


@contextmanager
def without_magic(folder: Path) -> Iterator[Path]:
    """A folder of this machine under a path that `datasets` takes as it is: in others it sees patterns, variables, or two URLs."""
    if not MAGIC.search(str(whole(folder))):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="vocalgrad-") as place:
        for name in names(folder):
            link = Path(place) / "dataset" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(whole(folder / name))
        yield Path(place) / "dataset"


# -- errors -----------------------------------------------------------------------------------------------------------


@contextmanager
def asked(path: Path) -> Iterator[None]:
    """Turn what a store answers, or that it doesn't, into `StoreFault`; that a file isn't there stays FileNotFoundError."""
    try:
        yield
    except Exception as error:
        if not is_remote(path) or isinstance(error, FileExistsError) or (isinstance(error, FileNotFoundError) and not _no_bucket(error)):
            raise
        if type(error) is OSError and error.errno is None:  # pyarrow's way to say that a file is damaged
            raise
        if not isinstance(error, (OSError, TimeoutError)) and not _is_foreign(error):
            raise
        raise StoreFault(_told(error, path)) from error


def _no_bucket(error: BaseException) -> bool:
    answer = getattr(error.__cause__, "response", None)
    return isinstance(answer, dict) and answer.get("Error", {}).get("Code") == "NoSuchBucket"


def _told(error: Exception, path: Path) -> str:
    """What, where, and what to do."""
    said = without_secrets((str(error).splitlines() or [""])[0]) or type(error).__name__
    kind = type(error).__name__
    if _no_bucket(error):
        return f"{path}: there is no such bucket: create it, or check its name and AWS_ENDPOINT_URL"
    if kind in ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"):
        return f"{path}: no credentials ({said}): set {CREDENTIALS}"
    if isinstance(error, PermissionError):
        return f"{path}: access denied ({said}): these credentials may not do this there; see {CREDENTIALS}"
    if _is_foreign(error) or isinstance(error, (ConnectionError, TimeoutError)):
        ask = "the network" if str(path).startswith("hf://") else "the network and AWS_ENDPOINT_URL"
        return f"{path}: no answer ({said}): check {ask}, and run the same command again: what was finished is kept"
    return f"{path}: the store can't do this ({said}); run the same command again: what was finished is kept"


# -- reading ----------------------------------------------------------------------------------------------------------


def exists(path: Path) -> bool:
    """Whether a file or folder is there; a store that doesn't answer is an error, not a no."""
    if not is_remote(path):
        return path.exists()
    return _kind(path) is not None


def is_folder(path: Path) -> bool:
    """Whether a folder is there."""
    return _kind(path) == "directory" if is_remote(path) else path.is_dir()


def _kind(path: Path) -> str | None:
    fs, name = _at(path)
    with asked(path):
        try:
            return str(fs.info(name)["type"])
        except FileNotFoundError as error:
            if _no_bucket(error):
                raise
            return None


def stamps(root: Path) -> dict[str, str]:
    """Name below a remote folder -> what changes when the file is replaced; sorted, found by listing alone."""
    fs, base = _at(root)
    with asked(root):
        found = fs.find(base, detail=True)
    base = base.strip("/") + "/"
    below = {name.strip("/").removeprefix(base): item for name, item in found.items() if name.strip("/").startswith(base)}
    return {name: " ".join(str(below[name][key]) for key in STAMPS if key in below[name]) for name in sorted(below)}


def names(root: Path) -> list[str]:
    """Files below a folder, `/`-separated, sorted; none if it isn't there."""
    if is_remote(root):
        return list(stamps(root))
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def folders(root: Path) -> list[str]:
    """Names of the folders right below a folder, sorted."""
    if not is_remote(root):
        return sorted(entry.name for entry in root.iterdir() if entry.is_dir())
    fs, name = _at(root)
    with asked(root):
        return sorted(item["name"].rstrip("/").rpartition("/")[2] for item in fs.ls(name, detail=True) if item["type"] == "directory")


class Written:
    """Names below a folder as they're written there: a file system keeps a name in one Unicode form, tables may have another."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listed: dict[str, dict[str, str]] = {}

    def __call__(self, name: str) -> str:
        """The name of what is there in any Unicode form; the name itself, if nothing is."""
        found = ""
        for step in () if name.isascii() else name.split("/"):
            if found not in self._listed:
                self._listed[found] = {composed(entry): entry for entry in _entries(self._root / found if found else self._root)}
            found += "/" * bool(found) + self._listed[found].get(composed(step), step)
        return found or name


def _entries(folder: Path) -> list[str]:
    """Names of what lies right below a folder, sorted; none if it isn't there."""
    if not is_remote(folder):
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    fs, name = _at(folder)
    with asked(folder):
        return sorted(item.rstrip("/").rpartition("/")[2] for item in fs.ls(name, detail=False)) if _kind(folder) else []


def trees(root: Path) -> tuple[str, ...]:
    """Real paths of the folders of this machine that a corpus in `root` may link into.

    Its own; and for a folder of the Hub's cache, whose files are links, where that cache keeps the same repository's content.
    """
    real = os.path.realpath(root)
    snapshot = SNAPSHOT.match(real + os.sep)
    return (real, f"{snapshot[1]}/blobs") if snapshot else (real,)


def lies_in(path: str, trees: Iterable[str]) -> bool:
    """Whether a real path is one inside any of these folders."""
    return path.startswith(tuple(tree + os.sep for tree in trees))


def total_bytes(root: Path) -> int:
    """Of all files below a folder of this machine."""
    return sum(size_bytes(root / name) for name in names(root))


def size_bytes(path: Path) -> int:
    """Of a file."""
    if not is_remote(path):
        return path.stat().st_size
    fs, name = _at(path)
    with asked(path):
        return int(fs.info(name)["size"])


def content(path: Path) -> bytes:
    """A whole file, in one request; FileNotFoundError if it isn't there."""
    if not is_remote(path):
        return path.read_bytes()
    fs, name = _at(path)
    with asked(path):
        return bytes(fs.cat_file(name))


def text(path: Path, encoding: str = "utf-8") -> str:
    """A whole text file, ends of lines as `Path.read_text` gives them."""
    return io.TextIOWrapper(io.BytesIO(content(path)), encoding).read()


def contents(root: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """Small files by name, those that can be read; of a store many at once."""
    listed = list(wanted)
    if not is_remote(root):
        return dict(_local_contents(root, listed))
    found: dict[str, bytes] = {}
    for start in range(0, len(listed), AT_ONCE):
        some = {_at(root / name)[1]: name for name in listed[start : start + AT_ONCE]}
        with asked(root):
            for name, value in zip(some, _at(root)[0].cat_ranges(list(some), None, None, on_error="return"), strict=True):
                if isinstance(value, bytes):
                    found[some[name]] = value
                elif not isinstance(value, FileNotFoundError):
                    raise value
    return found


def _local_contents(root: Path, listed: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in listed:
        try:
            yield name, (root / name).read_bytes()
        except OSError:
            continue


@contextmanager
def opened(path: Path, *, parts: bool = False) -> Iterator[Any]:
    """A file to read and seek in; of a store the whole of it comes at once, or, if only `parts` are read, these alone."""
    if not is_remote(path):
        with path.open("rb") as stream:
            yield stream
    elif not parts:
        yield io.BytesIO(content(path))
    else:
        fs, name = _at(path)
        with asked(path), fs.open(name, "rb", cache_type="none") as stream:
            yield stream


# -- writing ----------------------------------------------------------------------------------------------------------


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put(temporary: Path, path: Path) -> None:
    """Send a file of this machine; it's in its place whole, or not at all."""
    fs, name = _at(path)
    with asked(path):
        fs.put_file(os.fspath(temporary), name)


def write(value: bytes, path: Path) -> None:
    """Write a small file that lasts through a power cut; on this machine not in one step."""
    if not is_remote(path):
        with path.open("wb") as stream:
            stream.write(value)
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(path.parent)
        return
    fs, name = _at(path)
    with asked(path):
        fs.pipe_file(name, value)


def create(value: bytes, path: Path) -> None:
    """Write a small file that isn't there yet; FileExistsError if it is, also if another writes it at the same moment."""
    fs, name = _at(path)
    with asked(path):
        fs.pipe_file(name, value, mode="create")


def copy(source: Path, path: Path) -> None:
    """Copy a file inside a store; its bytes don't come here."""
    (fs, old), (_, new) = _at(source), _at(path)
    with asked(path):
        fs.cp_file(old, new)


def remove(root: Path, listed: Iterable[str]) -> None:
    """Remove files below a folder, and on this machine the folders that this empties; those that aren't there needn't be removed."""
    if not is_remote(root):
        _remove_local(root, listed)
        return
    fs, _ = _at(root)
    for start in range(0, len(some := list(listed)), AT_ONCE):
        gone = [_at(root / name)[1] for name in some[start : start + AT_ONCE]]
        with asked(root):
            try:
                fs.rm([glob.escape(name) for name in gone])  # it takes names for patterns
            except FileNotFoundError as error:
                if _no_bucket(error):
                    raise
                for name in gone:  # not every store goes on with the others
                    with suppress(FileNotFoundError):
                        fs.rm_file(name)


def _remove_local(root: Path, listed: Iterable[str]) -> None:
    for name in listed:
        (root / name).unlink(missing_ok=True)
        for above in Path(name).parents[:-1]:
            with suppress(OSError):
                (root / above).rmdir()  # only if it's empty
