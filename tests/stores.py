"""An S3-compatible server on loopback, a line to it that can be cut, and one that answers all alike."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import s3fs
from moto.server import ThreadedMotoServer

BUCKET = "made"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def store() -> Iterator[str]:
    """A server with one empty bucket; its endpoint."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    fs = client(endpoint := f"http://{host}:{port}")
    if fs.exists(BUCKET):  # servers of one process hold the same
        fs.rm(BUCKET, recursive=True)
    fs.mkdir(BUCKET)
    yield endpoint
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def client(endpoint: str) -> s3fs.S3FileSystem:
    """A file system at an endpoint, apart from the environment."""
    return s3fs.S3FileSystem(
        key=KEYS["AWS_ACCESS_KEY_ID"], secret=KEYS["AWS_SECRET_ACCESS_KEY"], endpoint_url=endpoint, use_listings_cache=False
    )


def at(endpoint: str, patch: pytest.MonkeyPatch) -> None:
    """Make an endpoint the one that this process and its children talk to."""
    s3fs.S3FileSystem.clear_instance_cache()
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
        patch.setenv(name, value)


def objects(fs: s3fs.S3FileSystem, prefix: str) -> dict[str, bytes]:
    """Everything below a prefix, by name."""
    found = fs.find(prefix)
    return {name.removeprefix(f"{prefix}/"): value for name, value in fs.cat(found).items()} if found else {}


def files(root: Path) -> dict[str, bytes]:
    """Everything below a folder, by name."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


class Line(socketserver.ThreadingTCPServer):
    """Forwards to an endpoint; while it's cut, whoever calls is hung up on."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, endpoint: str) -> None:
        host, port = endpoint.removeprefix("http://").split(":")
        self.far = (host, int(port))
        self.cut = False
        super().__init__(("127.0.0.1", 0), _Call)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Where to call."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Call(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Line)
        if self.server.cut:
            return
        with socket.create_connection(self.server.far) as far:
            back = threading.Thread(target=self._pump, args=(far, self.request), daemon=True)
            back.start()
            self._pump(self.request, far)
            back.join()

    def _pump(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                if self.server.cut:  # type: ignore[attr-defined]
                    break
                to.sendall(content)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Answer(socketserver.ThreadingTCPServer):
    """Answers every request with one status and one of S3's codes."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, status: str, code: str) -> None:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told so</Message></Error>"
        self.said = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        super().__init__(("127.0.0.1", 0), _Refusal)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    endpoint = Line.endpoint


class _Refusal(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        asked = self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        assert isinstance(self.server, Answer)
        head, blank, body = self.server.said.partition("\r\n\r\n")
        self.wfile.write((head + blank + ("" if asked.startswith(b"HEAD") else body)).encode())
