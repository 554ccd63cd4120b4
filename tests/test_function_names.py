"""A function's name is a verb phrase or says what it returns: one participle or preposition says neither."""

from __future__ import annotations

import ast

import pytest

from tests._sources import Source, handwritten

CEILING = 306
"""How many functions may still have such a name; it only falls. Methods of torch and of containers are among them."""
PREPOSITIONS = {
    "over", "under", "above", "below", "beside", "apart", "through", "within", "inside", "outside", "around",
    "beyond", "behind", "after", "before", "between", "along", "aside", "alike", "together", "alone", "again", "away",
    "back", "by", "for", "from", "of", "off", "on", "onto", "out", "per", "to", "toward", "towards", "up", "upon",
    "with", "without", "at", "in", "into", "as", "ahead", "here", "there", "near", "like", "unlike",
}  # fmt: skip
PARTICIPLES = {
    "held", "kept", "made", "said", "told", "shown", "given", "taken", "left", "lent", "dealt", "known", "seen",
    "found", "sent", "built", "drawn", "written", "grown", "worn", "met", "meant", "sold", "thrown", "hidden",
    "chosen", "broken", "brought", "caught", "taught", "led", "laid", "lost", "done", "gone", "begun", "woven",
}  # fmt: skip
WORDS = {"feed", "seed", "need", "speed", "embed", "exceed", "proceed", "shared"}
"""Words that only end like a participle, and the name of a kind of field."""


def says_nothing(name: str) -> bool:
    """Whether a function's name is one participle or preposition."""
    word = name.strip("_")
    if "_" in word or name.startswith("__") or word in WORDS:
        return False
    return word in PREPOSITIONS or word in PARTICIPLES or word.endswith("ed")


def unclear_names(source: Source) -> list[str]:
    """The functions of a file whose names are one participle or preposition."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [f"{source.name}:{node.lineno}: {node.name}" for node in nodes if says_nothing(node.name)]


def test_names_say_what_functions_do() -> None:
    """The number of functions whose names are one participle or preposition only falls."""
    found = [line for source in handwritten() for line in unclear_names(source)]
    assert len(found) <= CEILING, f"{len(found)} functions, give the newest a verb phrase:\n" + "\n".join(found)


@pytest.mark.parametrize("name", ["_held", "over", "_settled"])
def test_one_word_is_found(name: str) -> None:
    """A participle or a preposition alone is found, with and without an underscore in front."""
    assert unclear_names(Source("x.py", f"def {name}(): ...")) == [f"x.py:1: {name}"]


@pytest.mark.parametrize("name", ["compact_ragged", "feed", "names_of", "__or__"])
def test_phrases_pass(name: str) -> None:
    """A verb phrase, a noun, and the methods that Python names pass."""
    assert unclear_names(Source("x.py", f"def {name}(): ...")) == []
