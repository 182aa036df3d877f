"""The Hub's HTTP endpoints over a `Store`: what `huggingface_hub` 2.4 and `datasets` 5.2 were seen to call."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hub.faults import Fault, Faults
from hub.store import DATE, Account, Commit, Entry, Refusal, Repo, Store
from hub.xet import stored

REPO = r"(?P<repo>[^/]+/[^/]+)"
CHUNK = 1 << 16


class Dropped(Exception):
    """The connection is closed without an answer."""


class Hub(ThreadingHTTPServer):
    """The server.

    Parameters
    ----------
    store
        What it keeps.
    part_bytes
        Larger files are uploaded in parts of this size; 0 for never.
    page
        Files in one page of a tree.
    xet
        Folder that clients put large files into by Xet; None for a Hub without.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, store: Store, part_bytes: int, page: int, xet: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = store
        self.faults = Faults()
        self.part_bytes = part_bytes
        self.page = page
        self.xet = xet
        self.parts: dict[str, dict[int, bytes]] = {}

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the log is kept by `Faults`."""

    def do_GET(self) -> None:
        """Any method: find the endpoint, let faults strike, answer."""
        path = urlsplit(self.path).path
        request = f"{self.command} {unquote(path)}"
        quiet = path.startswith("/_hub/")
        self.fault: Fault | None = None if quiet else self.server.faults.on(request)
        self.status: int | None = None
        self.got = 0
        try:
            self._go_wrong_early()
            self._dispatch(path)
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.message} | ({"X-Error-Code": refusal.code} if refusal.code else {})
            self._finish_body()
            self._send(refusal.status, json.dumps({"error": refusal.message, **refusal.more}).encode(), headers)
        except (Dropped, ConnectionError):
            self.close_connection = True
        finally:
            if not quiet:
                self.server.faults.note(request, self.got, self.status, self.fault.action if self.fault else None)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    # -- bodies and answers -------------------------------------------------------------------------------------------

    def _go_wrong_early(self) -> None:
        if self.fault is None:
            return
        if self.fault.action == "drop":
            self.rfile.read(min(int(self.headers.get("Content-Length", 0)) // 2, CHUNK))
            self.connection.shutdown(socket.SHUT_RDWR)
            raise Dropped
        if self.fault.action == "hold":
            self._finish_body()
            self.server.faults.note(f"{self.command} {unquote(self.path)}", self.got, None, "hold")
            threading.Event().wait()
        if self.fault.action == "status":
            self._finish_body()
            said = {"error": "on purpose", "errors": [{"message": "on purpose"}], "warnings": []}
            self._send(self.fault.status, json.dumps(said).encode(), dict(self.fault.headers))
            raise Dropped

    def _read(self, size: int) -> bytes:
        content = self.rfile.read(size)
        self.got += len(content)
        if len(content) < size:
            raise Dropped
        return content

    def _finish_body(self) -> bytes:
        return self._read(int(self.headers.get("Content-Length", 0)) - self.got)

    def _json(self) -> Any:
        return json.loads(self._finish_body() or b"null")

    def _answer(self, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        if self.fault is not None and self.fault.action == "lose":
            self.connection.shutdown(socket.SHUT_RDWR)
            raise Dropped
        self.status = status
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.fault is not None and self.fault.action == "cut":
            self.wfile.write(content[: len(content) // 2])
            self.connection.shutdown(socket.SHUT_RDWR)
            raise Dropped
        self.wfile.write(content)

    # -- who asks, for what -------------------------------------------------------------------------------------------

    def _dispatch(self, path: str) -> None:
        for method, pattern, endpoint in ENDPOINTS:
            found = re.fullmatch(pattern, path)
            if found and self.command in method.split("|"):
                endpoint(self, **{name: unquote(value or "") for name, value in found.groupdict().items()})
                return
        raise Refusal(404, "Not Found")

    def _account(self) -> Account | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            return None
        if token not in self.server.store.accounts:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self.server.store.accounts[token]

    def _repo(self, name: str) -> Repo:
        account, repo = self._account(), self.server.store.repos.get(name)
        if repo is not None and (not repo.private or (account is not None and name.split("/")[0] in (account.name, *account.orgs))):
            return repo
        if account is None:
            raise Refusal(401, "Invalid username or password.", "RepoNotFound")
        raise Refusal(404, "Repository not found", "RepoNotFound")

    def _writable(self, name: str) -> Repo:
        repo = self._repo(name)
        self._check_rights(name.split("/")[0])
        return repo

    def _check_rights(self, namespace: str) -> Account:
        account = self._account()
        if account is None:
            raise Refusal(401, "Invalid username or password.")
        if account.role != "write" or namespace not in (account.name, *account.orgs):
            raise Refusal(403, f'You don\'t have the rights to create or change a dataset under the namespace "{namespace}"')
        return account

    def _query(self, name: str, default: str = "") -> str:
        return parse_qs(urlsplit(self.path).query).get(name, [default])[0]

    # -- endpoints: accounts and repositories -------------------------------------------------------------------------

    def whoami(self) -> None:
        """Who a token belongs to."""
        account = self._account()
        if account is None:
            raise Refusal(401, "Invalid username or password.")
        token = {"displayName": "test", "role": account.role}
        orgs = [{"type": "org", "name": name} for name in account.orgs]
        self._answer({"type": "user", "id": account.name, "name": account.name, "orgs": orgs, "auth": {"accessToken": token}})

    def create(self) -> None:
        """A new repository."""
        asked = self._json()
        namespace = asked.get("organization") or self._check_rights("alice").name
        self._check_rights(namespace)
        repo_id = f"{namespace}/{asked['name']}"
        self.server.store.create(repo_id, asked.get("visibility") == "private")
        self._answer({"url": f"{self.server.url}/datasets/{repo_id}", "name": repo_id, "id": repo_id})

    def info(self, repo: str, revision: str = "main") -> None:
        """A repository at a revision."""
        found = self._repo(repo)
        commit = found.resolve(revision)
        self._answer(
            {
                "id": found.id,
                "author": found.id.split("/")[0],
                "sha": commit.oid,
                "private": found.private,
                "gated": False,
                "disabled": False,
                "lastModified": DATE,
                "createdAt": DATE,
                "tags": [],
                "likes": 0,
                "downloads": 0,
                "siblings": [{"rfilename": path} for path in sorted(commit.tree)],
            }
        )

    def validate_yaml(self) -> None:
        """Whether a card's front matter is YAML at all."""
        content = self._json()["content"]
        good = content.startswith("---\n") and "\n---\n" in content and "\t" not in content.split("\n---\n")[0]
        errors = [] if good else [{"message": "front matter isn't YAML"}]
        self._send(200 if good else 400, json.dumps({"errors": errors, "warnings": []}).encode(), {})

    def refs(self, repo: str) -> None:
        """Branches, tags and pull requests."""
        found = self._repo(repo)
        groups: dict[str, list[dict[str, str]]] = {"heads": [], "tags": [], "pr": []}
        for ref, oid in found.refs.items():
            _, kind, name = ref.split("/", 2)
            groups[kind].append({"name": name, "ref": ref, "targetCommit": oid})
        self._answer({"branches": groups["heads"], "converts": [], "tags": groups["tags"], "pullRequests": groups["pr"]})

    def commits(self, repo: str, revision: str) -> None:
        """History of a revision."""
        listed = self._repo(repo).history(revision)
        self._answer(
            [{"id": c.oid, "title": c.title, "message": "", "authors": [{"user": c.author}], "date": DATE} for c in listed],
        )

    def discussions(self, repo: str) -> None:
        """Pull requests."""
        found, status = self._repo(repo), self._query("status", "all")
        listed = [pull for pull in found.pulls if status in ("all", pull["status"])]
        about = {"repo": {"name": found.id, "type": "dataset"}, "isPullRequest": True, "createdAt": DATE}
        self._answer({"discussions": [{**p, "author": {"name": p["author"]}, **about} for p in listed], "count": len(listed), "start": 0})

    def make_tag(self, repo: str, revision: str) -> None:
        """Tag a commit."""
        found, name = self._writable(repo), self._json()["tag"]
        if self.fault is not None and self.fault.action == "overtake":
            found.refs[f"refs/tags/{name}"] = found.history("main")[-1].oid
        if f"refs/tags/{name}" in found.refs:
            raise Refusal(409, f"Tag {name} already exists")
        found.refs[f"refs/tags/{name}"] = found.resolve(revision).oid
        self._answer({})

    # -- endpoints: uploads -------------------------------------------------------------------------------------------

    def preupload(self, repo: str, revision: str) -> None:
        """How each file is to be sent, and what stands in its place now."""
        found = self._repo(repo) if self._query("create_pr") else self._writable(repo)
        tree = found.resolve(revision).tree
        listed = []
        for file in self._json()["files"]:
            path = file["path"]
            mode = "lfs" if found.is_large(path, file["size"]) else "regular"
            listed.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": tree[path].etag if path in tree else None})
        self._answer({"files": listed})

    def lfs_batch(self, repo: str) -> None:
        """Where to send large files; nothing for those that are there."""
        found, objects = self._repo(repo), []
        for item in self._json()["objects"]:
            oid, size = item["oid"], item["size"]
            place = f"{self.server.url}/lfs/{repo}/{oid}"
            actions: dict[str, Any] = {"upload": {"href": place, "header": {}}, "verify": {"href": f"{place}/verify"}}
            if self.server.part_bytes and size > self.server.part_bytes:
                n_parts = -(-size // self.server.part_bytes)
                urls = {f"{number:05d}": f"{place}/part/{number}" for number in range(1, n_parts + 1)}
                actions["upload"] = {"href": f"{place}/done", "header": {"chunk_size": str(self.server.part_bytes), **urls}}
            objects.append({"oid": oid, "size": size, **({} if oid in found.large else {"actions": actions})})
        self._answer({"transfer": "basic", "objects": objects}, {"Content-Type": "application/vnd.git-lfs+json"})

    def xet_token(self, repo: str, kind: str, revision: str) -> None:
        """Where large files are put or taken by Xet, and until when."""
        if self.server.xet is None:
            raise Refusal(404, "Not Found")
        if kind == "write":
            self._writable(repo)
        place, until = f"local://{self.server.xet}", str(2**31)
        headers = {"X-Xet-Cas-Url": place, "X-Xet-Token-Expiration": until, "X-Xet-Access-Token": "xet"}
        self._answer({"casUrl": place, "exp": int(until), "accessToken": "xet"}, headers)

    def _learn_from_xet(self, repo: Repo) -> None:
        if self.server.xet is not None:
            self.server.store.xet |= stored(self.server.xet)
            repo.large |= set(self.server.store.xet)

    def lfs_put(self, repo: str, oid: str) -> None:
        """The content of a large file; kept only if it's the one that was announced."""
        temporary = self.server.store.folder / f".{oid}.{threading.get_ident()}"
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        try:
            with temporary.open("wb") as stream:
                while left:
                    content = self._read(min(left, CHUNK))
                    digest.update(content)
                    stream.write(content)
                    left -= len(content)
            self._keep(repo, oid, digest.hexdigest(), temporary)
        finally:
            temporary.unlink(missing_ok=True)
        self._send(200, b"", {"ETag": f'"{oid}"'})

    def _keep(self, repo: str, oid: str, found: str, temporary: Path) -> None:
        if found != oid:
            raise Refusal(400, "the content isn't what its checksum says")
        temporary.replace(self.server.store.large_path(oid))
        self.server.store.repos[repo].large.add(oid)

    def lfs_part(self, repo: str, oid: str, number: str) -> None:
        """One part of a large file."""
        content = self._finish_body()
        self.server.parts.setdefault(oid, {})[int(number)] = content
        self._send(200, b"", {"ETag": f'"{hashlib.md5(content).hexdigest()}"'})

    def lfs_done(self, repo: str, oid: str) -> None:
        """All parts are there: put them together."""
        listed, parts = self._json()["parts"], self.server.parts.get(oid, {})
        etags = {number: f'"{hashlib.md5(content).hexdigest()}"' for number, content in parts.items()}
        if any(etags.get(part["partNumber"]) != part["etag"] for part in listed):
            raise Refusal(400, "a part is missing or another")
        content = b"".join(parts[part["partNumber"]] for part in listed)
        temporary = self.server.store.folder / f".{oid}.{threading.get_ident()}"
        temporary.write_bytes(content)
        self._keep(repo, oid, hashlib.sha256(content).hexdigest(), temporary)
        self._answer({})

    def lfs_verify(self, repo: str, oid: str) -> None:
        """Whether a large file arrived."""
        asked = self._json()
        if asked["oid"] not in self.server.store.repos[repo].large:
            raise Refusal(404, "not there")
        self._answer({})

    def commit(self, repo: str, revision: str) -> None:
        """A commit, on a branch or as a pull request."""
        as_pull = self._query("create_pr") == "1"
        found = self._repo(repo) if as_pull else self._writable(repo)
        account = self._account()
        lines = [json.loads(line) for line in self._finish_body().splitlines()]
        self._learn_from_xet(found)
        if self.fault is not None and self.fault.action == "overtake":
            self._by_hand(found, "note.txt", b"by somebody else")
        if self.fault is not None and self.fault.action == "spoil":
            del lines[1]
        made, number = self.server.store.commit(found, revision, lines, account.name if account else "", as_pull)
        url = f"{self.server.url}/datasets/{repo}"
        pull = {"pullRequestUrl": f"{url}/discussions/{number}"} if as_pull else {}
        self._answer({"success": True, "commitOid": made.oid, "commitUrl": f"{url}/commit/{made.oid}", **pull})

    # -- endpoints: downloads -----------------------------------------------------------------------------------------

    def tree(self, repo: str, revision: str, path: str = "") -> None:
        """Files and folders, a page at a time."""
        commit = self._repo(repo).resolve(revision)
        listed = list(_listing(commit, path, self._query("recursive").lower() in ("true", "1")))
        start = int(self._query("cursor", "0"))
        links = {}
        if start + self.server.page < len(listed):
            base, query = urlsplit(self.path).path, urlsplit(self.path).query
            rest = "&".join(part for part in query.split("&") if part and not part.startswith("cursor="))
            links = {"Link": f'<{self.server.url}{base}?{rest}&cursor={start + self.server.page}>; rel="next"'}
        self._answer(listed[start : start + self.server.page], links)

    def paths_info(self, repo: str, revision: str) -> None:
        """Files and folders by name."""
        commit = self._repo(repo).resolve(revision)
        asked = json.loads(self._finish_body())["paths"]
        everything = {item["path"]: item for item in _listing(commit, "", recursive=True)}
        self._answer([everything[path] for path in asked if path in everything])

    def resolve(self, repo: str, revision: str, path: str) -> None:
        """A file's bytes, or a range of them."""
        commit = self._repo(repo).resolve(revision)
        entry = commit.tree.get(path)
        if entry is None:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{entry.etag}"', "Accept-Ranges": "bytes"}
        if entry.sha256:
            headers |= {"X-Linked-Etag": f'"{entry.sha256}"', "X-Linked-Size": str(entry.size)}
        if entry.sha256 in self.server.store.xet:
            token = f"{self.server.url}/api/datasets/{repo}/xet-read-token/{commit.oid}"
            headers |= {"X-Xet-Hash": self.server.store.xet[entry.sha256], "Link": f'<{token}>; rel="xet-auth"'}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            headers["Content-Length"] = str(entry.size)
            self._send(200, b"" if self.command == "HEAD" else self._bytes(entry, 0, entry.size), headers)
            return
        first, last = wanted.groups()
        start = int(first) if first else max(0, entry.size - int(last))
        stop = min(int(last) + 1, entry.size) if first and last else entry.size
        if start >= entry.size:
            raise Refusal(416, "range not satisfiable")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{entry.size}"
        self._send(206, self._bytes(entry, start, stop), headers)

    def _bytes(self, entry: Entry, start: int, stop: int) -> bytes:
        if entry.sha256 is None:
            return entry.content[start:stop]
        with self.server.store.large_path(entry.sha256).open("rb") as stream:
            stream.seek(start)
            return stream.read(stop - start)

    # -- for the tests ------------------------------------------------------------------------------------------------

    def control(self, action: str) -> None:
        """Faults, the log, and what the Hub's web pages do: merging, moving a branch on, another's tag."""
        asked = self._json()
        if action == "faults":
            self.server.faults.set(asked)
            self._answer({})
        elif action == "log":
            self._answer(self.server.faults.log())
        elif action == "merge":
            self._answer({"oid": self.server.store.merge(self.server.store.repos[asked["repo"]], asked["number"]).oid})
        elif action == "write":
            self._answer({"oid": self._by_hand(self.server.store.repos[asked["repo"]], asked["path"], asked["content"].encode())})

    def _by_hand(self, repo: Repo, path: str, content: bytes) -> str:
        head = repo.resolve("main")
        return repo.add("refs/heads/main", head, "by hand", "bob", {**head.tree, path: Entry(content, len(content))}).oid


def _listing(commit: Commit, folder: str, recursive: bool) -> list[dict[str, Any]]:
    prefix = f"{folder}/" if folder else ""
    inside = {path: entry for path, entry in commit.tree.items() if path.startswith(prefix)}
    if folder and not inside:
        raise Refusal(404, f"{folder} doesn't exist", "EntryNotFound")
    found: dict[str, dict[str, Any]] = {}
    for path, entry in inside.items():
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts)):
            name = prefix + "/".join(parts[:depth])
            if recursive or depth == 1:
                found[name] = {"type": "directory", "oid": hashlib.sha1(name.encode()).hexdigest(), "size": 0, "path": name}
        if recursive or len(parts) == 1:
            large = {"lfs": {"oid": entry.sha256, "size": entry.size, "pointerSize": len(entry.content)}} if entry.sha256 else {}
            found[path] = {"type": "file", "oid": entry.oid, "size": entry.size, "path": path, **large}
    return [found[path] for path in sorted(found)]


API = rf"/api/datasets/{REPO}"
LFS = rf"/lfs/{REPO}/(?P<oid>[0-9a-f]{{64}})"
REVISION = r"(?P<revision>[^/]+)"
ENDPOINTS: list[tuple[str, str, Callable[..., None]]] = [
    ("GET", r"/api/whoami-v2", Handler.whoami),
    ("POST", r"/api/repos/create", Handler.create),
    ("POST", r"/api/validate-yaml", Handler.validate_yaml),
    ("GET", API, Handler.info),
    ("GET", rf"{API}/revision/{REVISION}", Handler.info),
    ("GET", rf"{API}/refs", Handler.refs),
    ("GET", rf"{API}/commits/{REVISION}", Handler.commits),
    ("GET", rf"{API}/discussions", Handler.discussions),
    ("POST", rf"{API}/tag/{REVISION}", Handler.make_tag),
    ("POST", rf"{API}/preupload/{REVISION}", Handler.preupload),
    ("POST", rf"{API}/commit/{REVISION}", Handler.commit),
    ("GET", rf"{API}/tree/{REVISION}(?:/(?P<path>.+))?", Handler.tree),
    ("POST", rf"{API}/paths-info/{REVISION}", Handler.paths_info),
    ("GET|HEAD", rf"/datasets/{REPO}/resolve/{REVISION}/(?P<path>.+)", Handler.resolve),
    ("POST", rf"/datasets/{REPO}\.git/info/lfs/objects/batch", Handler.lfs_batch),
    ("GET", rf"{API}/xet-(?P<kind>read|write)-token/{REVISION}", Handler.xet_token),
    ("PUT", LFS, Handler.lfs_put),
    ("PUT", rf"{LFS}/part/(?P<number>\d+)", Handler.lfs_part),
    ("POST", rf"{LFS}/done", Handler.lfs_done),
    ("POST", rf"{LFS}/verify", Handler.lfs_verify),
    ("POST", r"/_hub/(?P<action>\w+)", Handler.control),
]
