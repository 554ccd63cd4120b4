"""Faults planted in five examples: where the declarations find each, and the table of the page."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tensorclass.errors import BuildError, SchemaError, UnknownFieldError
from tests._planted import PLANTED, Fault
from tests._sources import ROOT
from tests.typing._checkers import fresh, run_checker

HEAD = "| fault | planted | constructor | build | first run | never | plugin | plain pyright |\n|---|" + "---:|" * 7
PLACES = ("constructor", "build", "first run", "never")
CHECKERS = {"mypy+plugin": "plugin", "pyright": "pyright"}


def planted(program: str, fault: Fault) -> str:
    """The text of a program with a fault."""
    text = (ROOT / "examples" / f"{program}.py").read_text("utf-8")
    assert text.count(fault.right) == 1, fault.right
    return text.replace(fault.right, fault.wrong)


def table() -> str:
    """How many faults of each kind are found where, as a table of the page."""
    faults = [fault for several in PLANTED.values() for fault in several]
    rows = []
    for kind in [*dict.fromkeys(fault.kind for fault in faults), None]:
        chosen = [fault for fault in faults if kind in (fault.kind, None)]
        found = Counter(fault.found for fault in chosen)
        static = Counter(checker for fault in chosen for checker in fault.checkers)
        counts = [len(chosen), *(found[place] for place in PLACES), *(static[name] for name in CHECKERS.values())]
        rows.append(f"| {kind or 'all'} | {' | '.join(str(count or '') for count in counts)} |")
    return "\n".join([HEAD, *rows])


def found_by(module: ModuleType, path: Path) -> str:
    """Where a fault is found when the program runs."""
    try:
        module.main()
    except (BuildError, UnknownFieldError):
        return "build"
    except SchemaError as error:
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        return "constructor" if "load" in frames else "first run"
    except AssertionError:
        return "never"  # the program itself finds that its result is bad
    except Exception:  # of torch, whatever it is
        return "first run"
    return "never"


def test_the_page_has_the_faults():
    """The page shows how many faults are found where; each program has eight or more."""
    assert table() in (ROOT / "docs" / "which-tool.md").read_text("utf-8"), f"docs/which-tool.md needs\n{table()}"
    assert min(map(len, PLANTED.values())) >= 8
    assert [planted(program, fault) for program, faults in PLANTED.items() for fault in faults]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PLANTED)
def test_faults_are_found_at_run(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The constructor, the build or the first run finds each fault that is said to be found there."""
    found = {}
    for number, fault in enumerate(PLANTED[program]):
        path = tmp_path / f"{program}_{number}.py"
        path.write_text(planted(program, fault), "utf-8")
        module = ModuleType(path.stem)
        monkeypatch.setitem(sys.modules, path.stem, module)
        exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)
        if "EPOCHS" in module.__dict__:
            module.__dict__["EPOCHS"] = 1
        found[number, fault.kind] = found_by(module, path)
    assert found == {(number, fault.kind): fault.found for number, fault in enumerate(PLANTED[program])}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_faults_are_found_by_checkers(checker: str):
    """The plugin and plain pyright report the faults that they should find, beyond what they say of the program."""
    folder, every, right = fresh(f"planted_{CHECKERS[checker]}"), {}, {}
    for program, faults in PLANTED.items():
        right[program] = folder / f"{program}_right.py"
        right[program].write_text((ROOT / "examples" / f"{program}.py").read_text("utf-8"), "utf-8")
        for number, fault in enumerate(faults):
            path = folder / f"{program}_{number}.py"
            path.write_text(planted(program, fault), "utf-8")
            every[path] = (program, fault)
    said = run_checker(checker, [*every, *right.values()])
    before = {program: _counted(said.get(path, {})) for program, path in right.items()}
    ours = {path for path, rows in said.items() if path in every and _counted(rows) - before[every[path][0]]}
    found = {(program, fault.kind) for path, (program, fault) in every.items() if path in ours}
    told = {(program, fault.kind) for program, fault in every.values() if CHECKERS[checker] in fault.checkers}
    assert found == told


def _counted(rows: Any) -> Counter[str]:
    """How often a checker says what of a program."""
    return Counter(code for codes in rows.values() for code in codes if code != "no-untyped-call")
