"""Kinds of fields are objects: rooms ask them, and a new kind touches the files that docs/internals.md lists."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re

import pytest

from tensorclass._kinds import INIT_VAR, KINDS, PENDING, RAGGED, UNREAD, Kind, per_kind
from tests._sources import ROOT, Source, handwritten

FIELDS = {word for word, kind in KINDS.items() if kind not in (PENDING, INIT_VAR, UNREAD)}
COMPARISONS = 0
"""How many comparisons of kinds the rooms may have; it only falls."""


WORD = "getattr(self, f'_{spec.kind}')"
"""A method whose name is made of the word of a kind."""


def _imported(source: Source) -> set[str]:
    """The names that a file imports from the room of the kinds."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom) and node.module == "_kinds"]
    return {alias.name for node in nodes for alias in node.names}


def kind_comparisons(source: Source) -> list[str]:
    """Comparisons of a kind with words, or with one of the kinds themselves."""
    found, kinds = [], _imported(source) & {word.upper() for word in FIELDS}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and "kind}" in ast.unparse(node):
            found.append(f"{source.name}:{node.lineno}: {ast.unparse(node)}")
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        about = any(getattr(side, "attr", getattr(side, "id", "")) == "kind" for side in sides)
        parts = {part for side in sides for part in ast.walk(side)}
        words = {part.value for part in parts if isinstance(part, ast.Constant)} & FIELDS
        named = {part.id for part in parts if isinstance(part, ast.Name)} & kinds
        if named or (about and words):
            found.append(f"{source.name}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_rooms_compare_no_kinds() -> None:
    """A room asks a kind what it holds, as in `kind.is_ragged`, so a new kind answers for itself."""
    found = [line for source in handwritten() if "_kinds/" not in source.name for line in kind_comparisons(source)]
    assert len(found) <= COMPARISONS, "\n".join(found)


@pytest.mark.parametrize("text", ["spec.kind == 'ragged'", "kind in ('value', 'shared')", "spec.kind is RAGGED", WORD])
def test_comparisons_are_found(text: str) -> None:
    """The check sees words, several words, the kinds themselves, and names made of a word."""
    assert kind_comparisons(Source("x.py", f"from .._kinds import RAGGED\n{text}")) == [f"x.py:2: {text}"]


def test_a_table_has_every_kind() -> None:
    """`per_kind` has one argument for each kind of field, so type checkers and the import see a missing one."""
    assert set(inspect.signature(per_kind).parameters) == FIELDS
    with pytest.raises(TypeError, match="ragged"):
        per_kind(**dict.fromkeys(FIELDS - {"ragged"}, 1))


@pytest.mark.parametrize("word", sorted(KINDS))
def test_a_kind_exists_once(word: str) -> None:
    """A kind is the word that users see, and copies and pickles are the same object."""
    kind = KINDS[word]
    assert kind == word == f"{kind}"
    assert pickle.loads(pickle.dumps(kind)) is kind is copy.deepcopy(kind)  # made above
    assert Kind(word) is kind


def test_a_new_kind_touches_the_listed_files() -> None:
    """docs/internals.md lists every file with a table of kinds, or that makes one of an annotation."""
    page = (ROOT / "docs" / "internals.md").read_text("utf-8")
    listed = re.findall(
        r"`([\w/]+\.py)`", page.partition("A new kind of field touches")[2].partition("A class whose")[0]
    )
    tables = {word.upper() for word in FIELDS} | {"per_kind"}
    knowing = {source.name for source in handwritten() if "_kinds/" not in source.name and _imported(source) & tables}
    assert set(listed) == knowing


def test_a_kind_answers() -> None:
    """The attributes of a kind say what its fields hold."""
    assert (RAGGED.is_ragged, RAGGED.has_dtype, RAGGED.is_dense) == (True, True, False)
    assert RAGGED.written.format("x") == "Ragged[x]"
