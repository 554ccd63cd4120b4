"""The analysis of odd programs ends with findings, never with a fault of the plugin or of mypy."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tensorclass.typecheck._lint import FAULT, LintFinding, lint
from tests._sources import ROOT
from tests.typecheck._mutants import half_written, mutated_program

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::SyntaxWarning")]
PROGRAMS = sorted((ROOT / "tests" / "typing").glob("*/*.py"))
COUNT = 40


def test_odd_programs_end_with_findings(tmp_path: Path) -> None:
    """Names deleted, arguments swapped, classes over themselves: no line is left out because the plugin failed."""
    rng = random.Random(5)
    made: list[str] = []
    while len(made) < COUNT:
        text = mutated_program(rng.choice(PROGRAMS).read_text("utf-8"), rng, rng.choice((1, 2, 4, 8)))
        made += [] if text is None else [text]
    found = _lint_all(tmp_path, made)
    assert len({one.path for one in found if one.severity == "error"}) > COUNT // 2
    assert [str(one) for one in found if one.message.startswith(FAULT)] == []


def test_half_written_programs_are_named(tmp_path: Path) -> None:
    """Where a program stops in the middle of a line, the finding is that it does not parse."""
    rng = random.Random(6)
    for _ in range(6):
        found = _lint_all(tmp_path, [half_written(rng.choice(PROGRAMS).read_text("utf-8"), rng) + "\n("])
        assert {(one.path, one.code) for one in found} == {("odd_0.py", "syntax")}


def _lint_all(folder: Path, texts: list[str]) -> list[LintFinding]:
    for at, text in enumerate(texts):
        (folder / f"odd_{at}.py").write_text(text, "utf-8")
    names = [f"odd_{at}.py" for at in range(len(texts))]
    return lint(names, every=True, cache=folder / "cache", root=folder)
