"""Plain English: what readers see uses short sentences with the field's words, and none of the phrases below.

Read are the pages, the newest section of the changelog, the docstrings of the package and its messages. `python -m
tests.test_plain_words` prints what is found; `make lint` runs it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests._sources import PACKAGE, ROOT

_VERB = r"(?:is|are|was|were|has|have|can|can't|may|must|stays|comes|goes|holds|follows|gives|needs|belongs|keeps)"
PHRASES = {
    "stands": r"\b[Ss]tands?\b(?!-in| for\b| in for\b)",
    "is no X": r"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|matter\b|one\b)",
    "of which": r"\bof which\b",
    "what as a subject": rf"(?:^|(?<=[.;:] ))What\b[^.?!;:|]*?\b{_VERB}\b[^.?!;:|]*?\b{_VERB}\b",
    "what is not": r"\bwhat (?:is|are|was) (?:no|not)\b",
    "due": r"\bdue\b",
    "in the place of": r"\bin (?:the|its|their) place\b",
    "alone": r"\balone\b",
    "misspelt": r"\bmisspelt\b",
    "what it stands for": r"\bwhat (?:it|they|this|these) stands? for\b",
    "answered with what": r"\banswered (?:with|by) what\b",
    "in the mean": r"\bin the mean\b",
}
"""Phrases by name; the replacement is a verb of the field, `not a`, a noun, or `only`."""
ALLOWED = {
    "an argument": "alone: whether",  # of a worker, in `parallel`
}
"""Parts of a line that may stay, by name."""


class Found(NamedTuple):
    """One phrase: where it is, which, and the words around it."""

    path: str
    line: int
    phrase: str
    words: str


def prose(text: str) -> str:
    """A page without its programs, code and tables of numbers; lines keep their numbers."""
    text = re.sub(r"(?ms)^( *)```.*?^\1```", lambda fence: "\n" * fence[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`", "`x`", text)


def searched(text: str) -> Iterator[tuple[int, str, str]]:
    """The phrases of a text, each with its line and some words."""
    for name, pattern in PHRASES.items():
        for found in re.finditer(pattern, text, re.MULTILINE):
            words = text[max(0, found.start() - 40) : found.end() + 40].replace("\n", " ")
            if not any(part in words for part in ALLOWED.values()):
                yield text.count("\n", 0, found.start()), name, words


def pages() -> list[Path]:
    """What is read beside the package."""
    return [
        *sorted((ROOT / "docs").glob("*.md")),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    ]


def in_pages() -> Iterator[Found]:
    """Phrases of the pages and of the newest section of the changelog."""
    for page in pages():
        for line, name, words in searched(prose(page.read_text("utf-8"))):
            yield Found(page.name, line + 1, name, words)
    newest = "\n## ".join((ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[:2])
    for line, name, words in searched(prose(newest)):
        yield Found("CHANGELOG.md", line + 1, name, words)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """The strings of a module that are sentences: docstrings and messages, without their examples."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"(?m)^ *(?:>>>|\.\.\.) .*$", "", prose(node.value))


def in_package() -> Iterator[Found]:
    """Phrases of docstrings and messages."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for start, text in texts(path.read_text("utf-8")):
            for line, name, words in searched(text):
                yield Found(str(path.relative_to(ROOT)), start + line, name, words)


def test_pages_are_plain():
    """No page has a phrase of the list."""
    assert list(in_pages()) == []


def test_docstrings_and_messages_are_plain():
    """No docstring and no message has one."""
    assert list(in_package()) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The name stands below.", "stands"),
        ("A dict is no container.", "is no X"),
        ("A stack, of which two are left.", "of which"),
        ("What is missing is an error.", "what as a subject"),
        ("One of what is not known.", "what is not"),
        ("The field due here.", "due"),
        ("A link in the place of a file.", "in the place of"),
        ("The data alone.", "alone"),
        ("A misspelt name.", "misspelt"),
        ("Columns are read as what they stand for.", "what it stands for"),
        ("A wrong name is answered with what to write.", "answered with what"),
        ("Faster in the mean than before.", "in the mean"),
    ],
)
def test_phrases_are_found(text: str, name: str):
    """Each phrase is found in a sentence, in a message and in a docstring."""
    assert [found[1] for found in searched(text)] == [name]
    assert [
        found[1] for _, said in texts(f'"""{text}"""\nraise ValueError(f"{text} {{x}}")') for found in searched(said)
    ] == [
        name,
        name,
    ]


@pytest.mark.parametrize(
    "text",
    ["`h` stands for a size.", "There is no file.", "What a notebook shows.", "```\nalone\n```", "What is missing?"],
)
def test_other_words_pass(text: str):
    """Set terms, headlines and programs are not touched."""
    assert list(searched(prose(text))) == []


if __name__ == "__main__":
    everything = [*in_pages(), *in_package()]
    for found in everything:
        sys.stdout.write(f"{found.path}:{found.line}: {found.phrase}: ...{found.words}...\n")
    sys.stdout.write(f"{len(everything)} phrases\n")
    raise SystemExit(int(bool(everything)))
