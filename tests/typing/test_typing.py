"""What mypy, pyright and the run time say about the programs beside this file is what stands on their lines."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tensorclass.mypy_plugin import OLDEST
from tests._sources import ROOT
from tests.typing._checkers import RELEASES, Found, check, differences, run_checker
from tests.typing._execute import execute
from tests.typing._forms import rendered, scores
from tests.typing._notation import CHECKERS, FOLDERS, HERE, Mark, Program, parse_mark, programs, sections
from tests.typing._pages import SHOWN, findings, page_programs
from tests.typing._table import PAGE, filled, score

PROGRAMS = list(programs())


def _program(text: str, folder: str = "wrong") -> Program:
    marks = {number: mark for number, line in enumerate(text.splitlines(), 1) if (mark := parse_mark(line))}
    return Program(HERE / folder / "made_up.py", text, marks)


@pytest.mark.parametrize(
    "checker",
    [pytest.param(name, marks=pytest.mark.slow if "stubs" in name or name == "mypy" else ()) for name in CHECKERS],
)
def test_checker(checker: str) -> None:
    """A checker reports the codes on the line, all of them and no others."""
    found = check(checker, PROGRAMS)
    problems = differences(PROGRAMS, checker, found)
    assert not problems, "\n" + "\n".join(problems)


MISSED_BY_OLDEST = {"receivers.py": {23, 26, 35, 46, 49}}
"""What the oldest release does not report: items and constructors of `Self`, of `type(self)` and of type variables."""


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_other_releases_of_mypy(release: str) -> None:
    """With the plugin they report the same lines; the newest of the minor version before, the same codes too."""
    folder = Path(sys.prefix, f"mypy-{release}")
    assert [*folder.glob(f"mypy-{release}.dist-info")], f"{folder} has no mypy: `make slow` installs it"
    meant = [program for program in PROGRAMS if "mypy+plugin" in program.checkers]
    found = run_checker(release, [program.path for program in meant])
    if release != RELEASES[-1]:
        codes = {program.path: {n: mark.codes("mypy+plugin") for n, mark in program.marks.items()} for program in meant}
        wanted = {path: {n for n, said in lines.items() if said} for path, lines in codes.items()}
        missed = {path: lines - set(found.get(path, ())) for path, lines in wanted.items()}
        assert {path.name: lines for path, lines in missed.items() if lines} == MISSED_BY_OLDEST
        assert [path for path, lines in wanted.items() if set(found.get(path, ())) - lines] == []
        return
    problems = differences(meant, "mypy+plugin", found)
    assert not problems, "\n" + "\n".join(problems)


def test_releases_of_mypy() -> None:
    """The oldest one is that which the plugin and the requirements name, the newest is before the one of the tests."""
    oldest = ".".join(map(str, OLDEST))
    assert RELEASES[0].startswith(oldest)
    assert f'"mypy>={oldest}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert RELEASES[-1].rpartition(".")[0] < version("mypy").rpartition(".")[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_run_time(program: Program) -> None:
    """Statements raise the error on their line and no other, so right programs are right and wrong ones are wrong."""
    problems = execute(program)
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_marks_fit_the_folder(program: Program) -> None:
    """Right programs have no marks; somebody sees every wrong line; false alarms run; unseen lines raise."""
    folder, marks = program.path.parent.name, program.marks.values()
    if folder == "programs":
        kinds = {line: part.kind for part in sections(program) for line in part.lines}
        assert {kinds.get(line) for line in program.marks} == {"wrong"}
        assert all(
            any(line in program.marks for line in part.lines) == (part.kind == "wrong") for part in sections(program)
        )
    elif folder == "right":
        assert not program.marks
    elif folder == "wrong":
        assert marks
        assert all(mark.seen() for mark in marks)
    elif program.path.stem == "false_alarms":
        assert all(mark.error is None and mark.seen() for mark in marks)
    else:
        assert all(mark.error is not None and not mark.seen() for mark in marks)


@pytest.mark.slow
def test_pages_type_check_as_they_stand() -> None:
    """The tour and the README with the plugin in strict mode; what torch leaves without types is not counted."""
    found = findings("mypy+plugin", page_programs([ROOT / page for page in SHOWN]))
    assert [line for lines in found.values() for line in lines] == []


def test_programs_are_many_and_what_checkers_see_of_them_is_what_is_promised() -> None:
    """No right one is reported; with the plugin nearly all wrong ones are, and three of four with nothing at all."""
    found = {checker: score(checker) for checker in CHECKERS}
    assert all((one.wrong >= 120, one.right >= 60, one.flagged) == (True, True, 0) for one in found.values())
    least = {"mypy+plugin": 0.95, "pyright+stubs": 0.9, "mypy+stubs": 0.89}
    assert {name for name, one in found.items() if one.caught < least.get(name, 0.7) * one.wrong} == set()


def test_every_program_is_strict() -> None:
    """Every program is checked in the strict mode of pyright; right ones without exceptions."""
    heads = {program.name: program.text.splitlines()[0] for program in PROGRAMS}
    assert {name for name, head in heads.items() if not head.startswith("# pyright: strict")} == set()
    assert {head for name, head in heads.items() if name.startswith(("right/", "programs/"))} == {"# pyright: strict"}


def test_the_page_is_fresh() -> None:
    """docs/typing.md shows the tables of today; `python -m tests.typing --markdown` writes them."""
    page = PAGE.read_text("utf-8")
    assert filled(page) == page


@pytest.mark.slow
def test_what_is_measured_is_fresh() -> None:
    """The same programs in other forms; `python -m tests.typing --markdown` measures them."""
    page = PAGE.read_text("utf-8")
    assert filled(page, scores()) == page


FORM = """# pyright: strict
from tensorclass import TensorClass, produced


class One(TensorClass, frozen=True):
    a: Float32[Tensor, "8"] = produced()
# anchor: extra = 3

# ---- right: a child
class Two(One, frozen=True):
    b: PerElement[str]
# ---- wrong: no like
print(One.b)  # E: one | two | -
# anchor: none
# ---- wrong: another like
Two("a")  # E: one | two | -
# anchor: Two["a"]  # E
"""


@pytest.mark.parametrize(
    ("form", "head"),
    [
        ("original_base", 'class One(TensorClass["frozen"]):'),
        ("original_typed", 'class One(TypedTensorDict["frozen"]):'),
        ("original_decorator", "@tensorclass(frozen=True)\nclass One:"),
    ],
)
def test_programs_in_forms_of_the_original(form: str, head: str) -> None:
    """Classes stand below the other base, and what has no like there is replaced or left out."""
    program = _program(rendered(_program(FORM, "programs"), form), "programs")
    assert f"\n{head}\n    a: Tensor | None = None\nextra = 3\n" in program.text
    assert "(One):\n    b: str\n" in program.text
    assert [part.title for part in sections(program)] == ["a child", "another like"]
    assert [program.text.splitlines()[line - 1].split("  ")[0] for line in program.marks] == ['Two["a"]']


def test_programs_below_the_decorator() -> None:
    """Only the classes change."""
    text = rendered(_program(FORM, "programs"), "decorator")
    assert '@tensorclass(frozen=True)\nclass One:\n    a: Float32[Tensor, "8"] = produced()\n' in text
    assert "@tensorclass(frozen=True)\nclass Two(One):\n    b: PerElement[str]\n" in text


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("f(3)", None),
        ("f(3)  # an explanation", None),
        ("f(3)  # E: - | - | -", Mark(frozenset(), frozenset(), None)),
        (
            "f(3)  # E: call-arg | reportCallIssue | TypeError",
            Mark(frozenset({"call-arg"}), frozenset({"reportCallIssue"}), "TypeError"),
        ),
        ("f(3)  #E:a , b|-|-", Mark(frozenset({"a", "b"}), frozenset(), None)),
    ],
)
def test_notation(line: str, mark: Mark | None) -> None:
    """A mark has a column for each checker and one for the run time."""
    assert parse_mark(line) == mark


def test_a_checker_says_what_the_one_says_that_it_builds_on() -> None:
    """A column of its own is taken where there is one."""
    mark = parse_mark("f()  # E: one | two | -")
    assert mark is not None
    assert (mark.codes("mypy+plugin"), mark.codes("pyright"), mark.codes("ty")) == ({"one"}, {"two"}, set())
    mark = parse_mark("f()  # E: - | two | - | mypy+plugin: three, four")
    assert mark is not None
    assert (mark.codes("mypy+plugin"), mark.codes("mypy")) == ({"three", "four"}, set())


def test_what_the_stub_command_says_counts_for_both_checkers() -> None:
    """The column `stubs` is added to what a checker says that reads the stubs."""
    mark = parse_mark("f()  # E: one | - | - | stubs: two")
    assert mark is not None
    assert (mark.codes("mypy+stubs"), mark.codes("pyright+stubs")) == ({"one", "two"}, {"two"})
    assert (mark.codes("mypy"), mark.codes("mypy+plugin"), mark.codes("pyright")) == ({"one"}, {"one"}, set())


def test_a_program_names_the_checkers_that_are_meant() -> None:
    """Without a line of its own a program is for all that read its folder."""
    assert _program("# pyright: strict\n# checkers: mypy+plugin\n").checkers == ("mypy+plugin",)
    assert _program("# pyright: strict\n").checkers == FOLDERS["wrong"]
    assert _program("# pyright: strict\n", "programs").checkers == tuple(CHECKERS)
    assert differences([_program("# checkers: pyright\na  # E: one | - | -\n")], "mypy", {}) == []


@pytest.mark.parametrize(
    "line",
    [
        "f()  # E: call-arg",
        "f()  # E: a | b",
        "f()  # E: a | | c",
        "f()  # E: a | b | c | d",
        "f()  # E: a | b | c | mypyc: d",
    ],
)
def test_notation_refuses(line: str) -> None:
    """A mark with another number of columns, or an empty one, is a mistake in the program."""
    with pytest.raises(ValueError, match="mypy"):
        parse_mark(line)


def test_differences_both_ways() -> None:
    """A missing diagnostic, an unexpected one and another code are differences; an expected one is none."""
    program = _program("a\nb  # E: one | - | -\nc  # E: two | - | -\nd  # E: three | - | -\n")
    found: Found = {program.path: {1: {"zero": "words"}, 3: {"two": ""}, 4: {"four": "more words"}}}
    assert differences([program], "mypy", found) == [
        "wrong/made_up.py:1: mypy says zero: words",
        "wrong/made_up.py:2: mypy does not say one",
        "wrong/made_up.py:4: mypy does not say three",
        "wrong/made_up.py:4: mypy says four: more words",
    ]
    assert differences([program], "mypy", {})[0] == "wrong/made_up.py:2: mypy does not say one"


def test_execution_finds_what_does_not_fit() -> None:
    """A wrong statement that runs, a right one that raises and another error are reported; the expected one is not."""
    text = (
        "1 / 0  # E: - | - | ArithmeticError\n1 / 0\nx = 3  # E: - | - | ValueError\nint('x')  # E: - | - | TypeError\n"
    )
    problems = execute(_program(text))
    assert [problem.split(": ", 1)[1][:33] for problem in problems] == [
        "expected no error, got ZeroDivisi",
        "expected ValueError, got no error",
        "expected TypeError, got ValueErro",
    ]


def test_a_checker_that_cannot_run_says_so() -> None:
    """A checker that stops before it checks anything is an error, never an empty report."""
    with pytest.raises(RuntimeError, match="could not run"):
        run_checker("mypy", [Path("no/such/file.py")])
