"""What mypy, pyright and the run time say about the programs beside this file is what stands on their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.typing._checkers import differences, run_checker
from tests.typing._execute import execute
from tests.typing._notation import CHECKERS, Mark, Program, parse_mark, programs

PROGRAMS = list(programs())


@pytest.mark.parametrize("checker", CHECKERS)
def test_checker(checker: str):
    """A checker reports the codes on the line, all of them and no others."""
    found = run_checker(checker, [program.path for program in PROGRAMS])
    problems = differences(PROGRAMS, checker, found)
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_run_time(program: Program):
    """Statements raise the error on their line and no other, so right programs are right and wrong ones are wrong."""
    problems = execute(program)
    assert not problems, "\n" + "\n".join(problems)
