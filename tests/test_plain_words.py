"""Plain English: what readers see uses short sentences with the field's words, and none of the phrases below.

It reads the pages, the newest section of the changelog, and the docstrings, comments and messages of the package.
`python -m tests.test_plain_words` prints the findings; `make lint` runs it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
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
    "asked for": r"\basked for\b",
    "None where": r"\b(?:None|empty) where\b",
    "also where": r"\b(?:also|even) where\b",
    "take the place of": r"\b(?:tak(?:es?|en|ing)|took) (?:the|its|their) place\b",
    "another name of": r"\banother name (?:of|for)\b",
    "and its kin": r"\b(?:its|their) kin\b",
    "the general way": r"\b(?:general|fast|slow|short|complete) way\b",
    "held against": r"\b(?:held|holds?) (?:[\w ]{1,30} )?against\b",
    "in force": r"\bin force\b",
    "likewise": r"\blikewise\b",
    "anew": r"\banew\b",
    "whoever": r"\bwhoever\b",
    "brought to the disk": r"\bbr(?:ought|ing\w*) (?:\w+ ){0,4}to (?:the )?disk\b",
    "when omitted": r"\bwhen omitted\b",
    "go on with": r"\b(?:go(?:es)?|went) on (?:with|in|where|from|behind|after|\w+ing)\b",
    "one that is not": r"\b(?:one|something) that is not\b",
    "that there is": r"\bthat there (?:is|are)\b",
    "as it takes them": r"\bas [`\w.]+ (?:takes|has) (?:it|them)\b",
}
"""Phrases by name.

A plain word replaces each: a verb of the field, `not a`, a noun, `only`, `if`, `by default`, `instead of`, `an alias
of`, `continue`, `again`, `return`.
"""
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
        *sorted((ROOT / "changelog.d").glob("*.md")),
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
    """The sentences of a module: docstrings and messages, without their examples, and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"(?m)^ *(?:>>>|\.\.\.) .*$", "", prose(node.value))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], prose(token.string.lstrip("# "))


def in_package() -> Iterator[Found]:
    """Phrases of docstrings, comments and messages."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for start, text in texts(path.read_text("utf-8")):
            for line, name, words in searched(text):
                yield Found(str(path.relative_to(ROOT)), start + line, name, words)


def test_pages_are_plain():
    """No page has a phrase of the list."""
    assert list(in_pages()) == []


def test_docstrings_comments_and_messages_are_plain():
    """No docstring, no comment and no message has one."""
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
        ("A shard that was asked for.", "asked for"),
        ("The index, None where it has none.", "None where"),
        ("The data also where the class has changed.", "also where"),
        ("A new file takes the place of the old one.", "take the place of"),
        ("The number of dims; another name of `ndim`.", "another name of"),
        ("`apply` and its kin.", "and its kin"),
        ("False leaves it to the general way.", "the general way"),
        ("A value that is held against its field.", "held against"),
        ("The options in force.", "in force"),
        ("The tolerance; likewise.", "likewise"),
        ("A container is made anew.", "anew"),
        ("Bytes that whoever calls keeps alive.", "whoever"),
        ("A shard is brought to the disk.", "brought to the disk"),
        ("The device; the current one when omitted.", "when omitted"),
        ("Go on with a dataset, as a reader goes on reading.", "go on with"),
        ("For something that is not an archive.", "one that is not"),
        ("The rows that there are.", "that there is"),
        ("The options as `DataLoader` takes them.", "as it takes them"),
    ],
)
def test_phrases_are_found(text: str, name: str):
    """Each phrase is found in a sentence, in a message and in a docstring."""
    found = {name for _, name, _ in searched(text)}
    assert found == {name}
    module = f'"""{text}"""\nraise ValueError(f"{text} {{x}}")  # {text}'
    assert [{name for _, name, _ in searched(said)} for _, said in texts(module)] == [{name}] * 3


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
