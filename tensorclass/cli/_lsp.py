"""`tensorclass lsp`: a language server that shows the findings of `tensorclass lint` in an editor."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from urllib.parse import urlparse
from urllib.request import url2pathname

from .. import __version__
from .._content import read_content
from ..core import release_in_forks
from ..errors import MissingExtraError
from ..io._optional import optional
from ..typecheck._lint import CACHE, LintError, LintFinding, lint

_NEEDS = "`tensorclass lsp`"


class Client(Protocol):
    """The editor, as the server sees it."""

    def text_document_publish_diagnostics(self, params: Any) -> None:
        """Show the findings of one file instead of those before."""
        ...

    def window_show_message(self, params: Any) -> None:
        """Show a text."""
        ...


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--stdio", action="store_true", help="speak over stdin and stdout, which is always done")
    parser.add_argument("--all", action="store_true", help="show everything that mypy reports")


def run(arguments: argparse.Namespace) -> int:
    """Serve one editor until it ends the connection."""
    server = make_server(every=arguments.all)
    server.start_io()
    return 0


def make_server(*, every: bool = False) -> Any:
    """A server that analyzes a file when it is opened or saved.

    Raises:
        MissingExtraError: if pygls is not installed.
    """
    types = optional("lsprotocol.types", _NEEDS, "lsp")
    server = optional("pygls.lsp.server", _NEEDS, "lsp").LanguageServer("tensorclass", __version__)
    findings = Findings(server, types, every=every)

    def show(params: Any) -> None:
        root = server.workspace.root_path
        findings.show(params.text_document.uri, Path(root) if root else None)

    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(server.thread()(show))
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(server.thread()(show))
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(lambda params: findings.clear(params.text_document.uri))
    return server


class Findings:
    """Analyzes one file at a time, and shows what was found for the newest state of each.

    Args:
        client: the editor.
        types: the module with the types of the protocol.
        every: whether to show all that mypy reports.
    """

    def __init__(self, client: Client, types: Any, *, every: bool = False) -> None:
        self._client = client
        self._types = types
        self._every = every
        self._turn = release_in_forks(Lock())
        self._states: Counter[str] = Counter()

    def show(self, uri: str, root: Path | None) -> None:
        """Analyze a file as it was saved; its imports are found from the root of the project."""
        path = path_of(uri)
        if path is None or path.suffix not in (".py", ".pyi"):
            return
        self._states[uri] += 1
        state = self._states[uri]
        with self._turn:
            if state != self._states[uri]:
                return  # it was saved again, or closed
            try:
                found = lint([path], every=self._every, cache=(root or path.parent) / CACHE, root=root or path.parent)
                lines = read_content(path).decode("utf-8", "replace").splitlines()
            except (LintError, MissingExtraError, OSError) as error:
                kind = self._types.MessageType.Error
                self._client.window_show_message(self._types.ShowMessageParams(kind, f"tensorclass: {error}"))
                return
        if state == self._states[uri]:
            self._publish(uri, [self._diagnostic(one, lines) for one in found])

    def clear(self, uri: str) -> None:
        """Remove the findings of a file that was closed."""
        self._states[uri] += 1
        self._publish(uri, [])

    def _publish(self, uri: str, diagnostics: Sequence[Any]) -> None:
        params = self._types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics)
        self._client.text_document_publish_diagnostics(params)

    def _diagnostic(self, one: LintFinding, lines: Sequence[str]) -> Any:
        types = self._types
        severity = types.DiagnosticSeverity.Error if one.severity == "error" else types.DiagnosticSeverity.Information
        start, end = (types.Position(line=one.line - 1, character=at) for at in span_of(one, lines))
        where = types.Range(start=start, end=end)
        code = one.code or None
        return types.Diagnostic(range=where, message=one.message, severity=severity, code=code, source="tensorclass")


def span_of(one: LintFinding, lines: Sequence[str]) -> tuple[int, int]:
    """Where a finding begins and ends in its line, in the UTF-16 units of the protocol.

    >>> span_of(LintFinding("a.py", 1, 3, "", ""), ["é + batch.image  # text"])
    (2, 15)
    """
    line = lines[one.line - 1] if one.line <= len(lines) else ""
    code = line.partition("  #")[0].rstrip()
    start = min(one.column - 1, len(line))
    return _utf16_length(line[:start]), _utf16_length(line[: max(len(code), start)])


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def path_of(uri: str) -> Path | None:
    """The file that a URI names; None for anything else, such as a document that was never saved.

    >>> path_of("untitled:Untitled-1") is None
    True
    """
    parts = urlparse(uri)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None
