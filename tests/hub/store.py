"""Repositories with commits, refs, pull requests and large files: what a Hub keeps."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAIN = "refs/heads/main"
GITATTRIBUTES = b"*.flac filter=lfs diff=lfs merge=lfs -text\n*.parquet filter=lfs diff=lfs merge=lfs -text\n"
REGULAR_LIMIT_BYTES = 10_000_000
DATE = "2026-01-01T00:00:00.000Z"


class Refusal(Exception):
    """An answer that says no: status, message, the code that the client knows errors by, and what else is in the answer."""

    def __init__(self, status: int, message: str, code: str | None = None, **more: str) -> None:
        super().__init__(message)
        self.more = more
        self.status = status
        self.message = message
        self.code = code


def git_sha1(content: bytes) -> str:
    """Identifier that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One file of a commit; of a large one, `content` is git's pointer to it."""

    content: bytes
    size: int
    sha256: str | None = None

    @property
    def oid(self) -> str:
        """Git's identifier of what git keeps."""
        return git_sha1(self.content)

    @property
    def etag(self) -> str:
        """What changes when the file does."""
        return self.sha256 or self.oid

    @classmethod
    def large(cls, sha256: str, size: int) -> Entry:
        """A file that lies in the large file store."""
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()
        return cls(pointer, size, sha256)


@dataclass(frozen=True)
class Commit:
    """A commit with the whole tree behind it."""

    oid: str
    parent: str | None
    title: str
    author: str
    tree: Mapping[str, Entry]


@dataclass
class Repo:
    """A dataset repository."""

    id: str
    private: bool
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    large: set[str] = field(default_factory=set)

    def resolve(self, revision: str) -> Commit:
        """The commit that a branch, tag, full ref or hash names."""
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in self.refs:
                return self.commits[self.refs[name]]
        if revision in self.commits:
            return self.commits[revision]
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def is_large(self, path: str, size: int) -> bool:
        """Whether a file goes to the large file store: by `.gitattributes`, or for its size."""
        lines = self.resolve("main").tree[".gitattributes"].content.decode().splitlines()
        patterns = [line.split()[0] for line in lines if "filter=lfs" in line]
        return size > REGULAR_LIMIT_BYTES or any(fnmatch.fnmatch(path.rsplit("/", 1)[-1], pattern) for pattern in patterns)

    def add(self, ref: str, parent: Commit | None, title: str, author: str, tree: Mapping[str, Entry]) -> Commit:
        """Put a commit on a ref."""
        files = sorted((path, entry.oid) for path, entry in tree.items())
        oid = hashlib.sha1(json.dumps([parent.oid if parent else None, title, author, files]).encode()).hexdigest()
        commit = Commit(oid, parent.oid if parent else None, title, author, dict(tree))
        self.commits[oid] = commit
        self.refs[ref] = oid
        return commit

    def history(self, revision: str) -> list[Commit]:
        """Commits from a revision back to the first."""
        found = [self.resolve(revision)]
        while found[-1].parent is not None:
            found.append(self.commits[found[-1].parent])
        return found


@dataclass(frozen=True)
class Account:
    """Whom a token belongs to and what it may do."""

    name: str
    orgs: tuple[str, ...]
    role: str


class Store:
    """All repositories, and the folder of large files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repos: dict[str, Repo] = {}
        self.xet: dict[str, str] = {}
        self.lock = threading.Lock()
        self.accounts = {
            "hf_write": Account("alice", ("acme",), "write"),
            "hf_read": Account("alice", ("acme",), "read"),
            "hf_other": Account("bob", (), "write"),
        }

    def large_path(self, sha256: str) -> Path:
        """Where a large file lies."""
        return self.folder / sha256

    def create(self, repo_id: str, private: bool) -> Repo:
        """A new repository, with the first commit that the Hub makes."""
        with self.lock:
            if repo_id in self.repos:
                raise Refusal(409, "You already created this dataset repo", url=f"/datasets/{repo_id}")
            repo = self.repos[repo_id] = Repo(repo_id, private)
            repo.add(MAIN, None, "initial commit", "alice", {".gitattributes": Entry(GITATTRIBUTES, len(GITATTRIBUTES))})
            return repo

    def commit(self, repo: Repo, revision: str, lines: Iterable[Mapping[str, Any]], author: str, as_pull: bool) -> tuple[Commit, int]:
        """Apply the lines of a commit request; returns the commit and the number of its pull request, 0 for none."""
        header, *operations = lines
        parent_oid = header["value"].get("parentCommit")
        with self.lock:
            head = repo.resolve(revision)
            if parent_oid not in (None, head.oid) and not as_pull:
                raise Refusal(412, "A commit has happened since. Please refresh and try again.")
            parent = repo.resolve(parent_oid) if parent_oid and as_pull else head
            tree = dict(parent.tree)
            for operation in operations:
                self._apply(repo, tree, operation["key"], operation["value"])
            title = header["value"]["summary"]
            number = len(repo.pulls) + 1 if as_pull else 0
            ref = f"refs/pr/{number}" if as_pull else f"refs/heads/{revision}"
            made = repo.add(ref, parent, title, author, tree)
            if as_pull:
                repo.pulls.append({"num": number, "title": title, "author": author, "status": "open"})
            return made, number

    def _apply(self, repo: Repo, tree: dict[str, Entry], key: str, value: Mapping[str, Any]) -> None:
        path = value["path"]
        if key == "file":
            content = base64.b64decode(value["content"])
            tree[path] = Entry(content, len(content))
        elif key == "lfsFile":
            there = self.large_path(value["oid"])
            if value["oid"] not in repo.large or (there.is_file() and there.stat().st_size != value["size"]):
                raise Refusal(400, f"LFS pointer of {path} points to a file that doesn't exist")
            tree[path] = Entry.large(value["oid"], value["size"])
        elif key == "deletedFile":
            if path not in tree:
                raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            del tree[path]
        else:
            raise Refusal(400, f"unknown operation {key}")

    def merge(self, repo: Repo, number: int) -> Commit:
        """Put a pull request's files on the main branch."""
        with self.lock:
            repo.pulls[number - 1]["status"] = "merged"
            return repo.add(MAIN, repo.resolve("main"), f"Merge {number}", "alice", repo.resolve(f"refs/pr/{number}").tree)
