"""A format of tables is one row of `FILE_KINDS`; this fails for a surface that lacks one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tensorclass
from tensorclass import TensorClassDataset, TensorDict
from tensorclass.cli import _new
from tensorclass.io._file_kinds import FILE_KINDS, FileKind
from tensorclass.io.exchange._formats import FORMATS
from tests.io.exchange._formats import TRIPS

DOCS = Path(__file__).parents[3] / "docs"
PAGE, PROMISES = DOCS.joinpath("exchange.md").read_text("utf-8"), DOCS.joinpath("stability.md").read_text("utf-8")


@pytest.mark.parametrize("kind", [kind for kind in FILE_KINDS if kind.rows], ids=lambda kind: kind.what)
def test_every_surface_has_every_format(kind: FileKind) -> None:
    """Functions, methods of containers and datasets, commands, pages and round trips know each format."""
    form = FORMATS[kind.suffixes[0] if kind.suffixes else ""]
    assert callable(form.read)
    assert callable(form.write)
    assert not kind.table or set(kind.suffixes) <= _new.READERS.keys()
    name = re.match(r"`from_(\w+)", kind.reader)
    if name is None:
        return
    reader, writer = f"from_{name[1]}", f"to_{name[1]}"
    owners = [TensorDict, TensorClassDataset] if kind.table else [TensorDict]
    assert [owner for owner in owners for method in (reader, writer) if not hasattr(owner, method)] == []
    assert [
        owner for owner in (tensorclass, tensorclass.io, tensorclass.io.exchange) if not hasattr(owner, reader)
    ] == []
    assert f".{reader}(" in PAGE
    assert f"`{reader}`" in PROMISES
    assert any(name[1] in trip for trip in TRIPS)
