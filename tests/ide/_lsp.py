"""A client of a language server: enough of the protocol to ask what an editor asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlparse

from tests.ide._project import place

COMMANDS = {
    "pyright": ("pyright-langserver", "--stdio"),
    "ty": ("ty", "server"),
    "pyrefly": ("pyrefly", "lsp"),
    "tensorclass": ("python", "-m", "tensorclass", "lsp"),
}
WAIT = 60
"""Seconds for an answer; the first takes about ten."""


class Client:
    """One running server with one project."""

    def __init__(self, process: subprocess.Popen[bytes], project: Path) -> None:
        self._process, self._project = process, project
        self._answers: Queue[Any] = Queue()
        self._findings: Queue[Any] = Queue()
        self._count = 0
        Thread(target=self._read, daemon=True).start()

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request.

        Raises:
            RuntimeError: when the server reports an error.
        """
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        while True:
            answer = self._answers.get(timeout=WAIT)
            if answer["id"] == self._count:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Say something that has no answer."""
        self._send({"method": method, "params": params})

    def findings(self, wait: float = WAIT) -> dict[str, Any]:
        """The next diagnostics that the server publishes."""
        found: dict[str, Any] = self._findings.get(timeout=wait)
        return found

    def open(self, name: str) -> None:
        """Open a file of the project, as it is on disk."""
        path = self._project / name
        item = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": path.read_text("utf-8")}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def at(self, name: str, after: str) -> dict[str, Any]:
        """The last character of the first occurrence of a text in a file, as requests name it."""
        path = self._project / name
        line, column = place(path.read_text("utf-8"), after)
        return {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}

    def complete(self, name: str) -> list[str]:
        """What is offered at the end of a file, in the order in which editors show it."""
        path = self._project / name
        self.open(name)
        text = path.read_text("utf-8")
        position = {"line": text.count("\n"), "character": len(text) - text.rfind("\n") - 1}
        found = self.request("textDocument/completion", {"textDocument": {"uri": path.as_uri()}, "position": position})
        items = found["items"] if isinstance(found, dict) else found or []
        return [item["label"] for item in sorted(items, key=lambda item: item.get("sortText", item["label"]))]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> None:
        """Answer what the server asks, and pass on what it answers."""
        stream = self._process.stdout
        assert stream is not None
        while header := stream.readline():
            size = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            message = json.loads(stream.read(size))
            if "method" not in message:
                self._answers.put(message)
            elif message["method"] == "textDocument/publishDiagnostics":
                self._findings.put(message["params"])
            elif "id" in message:
                self._send({"id": message["id"], "result": _reply(message)})


def _reply(message: dict[str, Any]) -> Any:
    if message["method"] == "workspace/configuration":
        return [{} for _ in message["params"]["items"]]
    return None


@contextmanager
def server(name: str, project: Path) -> Iterator[Client]:
    """A language server over a folder."""
    beside = Path(sys.executable)
    command = [str(beside.with_name(COMMANDS[name][0])), *COMMANDS[name][1:]]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, start_new_session=True) as process:
        try:
            client = Client(process, project)
            client.request(
                "initialize",
                {
                    "processId": None,
                    "rootUri": project.as_uri(),
                    "workspaceFolders": [{"uri": project.as_uri(), "name": project.name}],
                    "capabilities": {
                        "workspace": {"configuration": True, "workspaceFolders": True},
                        "textDocument": {"hover": {"contentFormat": ["plaintext"]}},
                    },
                },
            )
            client.notify("initialized", {})
            yield client
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the server is a child of the command


def renamed(edit: dict[str, Any] | None) -> dict[str, str]:
    """The files of the project as the edit leaves them, by name."""
    if edit is None:
        return {}
    changes = edit.get("changes") or {
        change["textDocument"]["uri"]: change["edits"] for change in edit["documentChanges"]
    }
    found = {}
    for uri, edits in changes.items():
        path = Path(unquote(urlparse(uri).path))
        lines = path.read_text("utf-8").splitlines(keepends=True)
        places = [[(at["line"], at["character"]) for at in (e["range"]["start"], e["range"]["end"])] for e in edits]
        for ((row, start), (_, end)), one in sorted(
            zip(places, edits, strict=True), key=lambda pair: pair[0], reverse=True
        ):
            lines[row] = lines[row][:start] + one["newText"] + lines[row][end:]
        found[path.name] = "".join(lines)
    return found
