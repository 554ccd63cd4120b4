"""An HTTP server for the files of a folder, which knows ranges and fails as it is told."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

Fault = Callable[["Handler", bytes, int, int, int], None]


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD and GET; `server.faults` are used up, one for each GET with a range."""

    server: Any

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """The size and the version."""
        self._answer(False)

    def do_GET(self) -> None:
        """A file, or a range of it."""
        self._answer(True)

    def _answer(self, body: bool) -> None:
        with self.server.lock:
            self.server.requests.append((self.command, self.path, self.headers.get("X-Token")))
            self.server.active += 1
            self.server.peak = max(self.server.peak, self.server.active)
        try:
            time.sleep(self.server.delay)
            self._answered(body)
        finally:
            with self.server.lock:
                self.server.active -= 1

    def _answered(self, body: bool) -> None:
        with self.server.lock:
            place = next((i for i, (end, _) in enumerate(self.server.troubles) if self.path.endswith(end)), None)
            trouble = None if place is None else self.server.troubles.pop(place)[1]
        if trouble is not None:
            self.close_connection = True
            time.sleep(self.server.pause)
            return None if trouble == "dropped" else self.send_error(trouble)
        if self.server.status:
            time.sleep(self.server.pause)
            return self.send_error(self.server.status)
        path = self.server.folder / self.path.lstrip("/")
        if path.is_dir() and self.path.endswith("/"):
            links = "".join([f'<a href="{quote(entry.name)}{"/" * entry.is_dir()}">x</a>' for entry in path.iterdir()])
            return self.send(200, links.encode(), len(links))
        if not path.is_file():
            return self.send_error(404)
        raw = path.read_bytes()
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not body or found is None or self.server.whole:
            return self.send(200, raw if body else b"", len(raw))
        begin, end = int(found[1]), min(int(found[2]) + 1, len(raw))
        with self.server.lock:
            self.server.ranges.append((begin, end))
            fault = self.server.faults.pop(0) if self.server.faults else None
        if fault is not None:
            return fault(self, raw, begin, end, len(raw))
        return self.send(206, raw[begin:end], end - begin, f"bytes {begin}-{end - 1}/{len(raw)}")

    def send(self, status: int, data: bytes, length: int, span: str = "") -> None:
        """An answer, whatever it says about itself."""
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        if self.server.tagged:
            path = self.server.folder / self.path.lstrip("/")
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        if span:
            self.send_header("Content-Range", span)
        self.end_headers()
        self.wfile.write(data)


def refused(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """A failure of the server."""
    handler.send(500, b"", 0)


def short(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """Fewer bytes than were asked for, and said so."""
    handler.send(206, raw[begin : end - 1], end - begin - 1, f"bytes {begin}-{end - 1}/{size}")


def cut(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """Fewer bytes than were promised."""
    handler.send(206, raw[begin : end - 1], end - begin, f"bytes {begin}-{end - 1}/{size}")
    handler.close_connection = True


def elsewhere(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """As many bytes, of another place."""
    handler.send(206, bytes(end - begin), end - begin, f"bytes {begin + 1}-{end}/{size}")


def garbage(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """As many bytes, called right, and others than those of the file."""
    handler.send(206, bytes(255 - byte for byte in raw[begin:end]), end - begin, f"bytes {begin}-{end - 1}/{size}")


def whole(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """The whole file and more, as a server that knows no ranges."""
    handler.send(200, raw + b"more", size + 4)


def dropped(handler: Handler, raw: bytes, begin: int, end: int, size: int) -> None:
    """Nothing: the connection ends."""
    handler.close_connection = True


FAULTS = {"500": refused, "short": short, "cut": cut, "elsewhere": elsewhere, "whole": whole, "dropped": dropped}


class Server(ThreadingHTTPServer):
    """A server that lets many connections wait, as those of stores do; else a client tries again after a second."""

    request_queue_size = 256


@contextmanager
def serving(folder: Path) -> Iterator[Any]:
    """A server of a folder; `url`, its `requests` and their `ranges`, `faults` to come, a `status` for each request.

    `troubles` are used up too: what a path ends with, and a status or "dropped".
    """
    server: Any = Server(("127.0.0.1", 0), Handler)
    server.folder, server.ranges, server.faults, server.lock = folder, [], [], threading.Lock()
    server.troubles = []
    server.requests, server.active, server.peak, server.delay = [], 0, 0, 0.0
    server.tagged = True
    server.status, server.pause, server.whole = 0, 0.0, False
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
