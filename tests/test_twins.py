"""Ten examples and their twins: the same programs with dicts, and with `tensordict`, and how many lines each has."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

from tests._sources import ROOT, Source
from tests.test_budget import code_lines
from tests.test_docs import asserted, claims, close, numbers, run_program

EXAMPLES = ROOT / "examples"
PROGRAMS = {
    "lightning_module": "Lightning module",
    "service": "web service",
    "recommender": "recommender",
    "autoencoder": "autoencoder",
    "digits": "digits",
    "ppo": "reinforcement learning",
    "language": "language model",
    "captions": "images with captions",
    "detection": "boxes",
    "graphs": "graphs",
}
SHORT = {
    "forecast": "forecast",
    "towers": "two towers",
    "suppress": "overlapping boxes",
    "moons": "VAE of points",
    "ensemble": "ensemble without gradients",
}
"""Programs with a twin with dicts only."""
FORMS = ("dict", "tensordict")
TWINS = [(name, form) for name in PROGRAMS for form in FORMS]
PAIRS = [*TWINS, *((name, "dict") for name in SHORT)]
HEAD = "| program | dict | tensordict | tensorclass | classes and build in it |\n|---|---:|---:|---:|---:|"


def twin(name: str, form: str) -> Path:
    """The same program in another form."""
    return EXAMPLES / "twins" / f"{name}_{form}.py"


def source(path: Path) -> Source:
    """A program as text and tree."""
    return Source(path.name, path.read_text("utf-8"))


def declared_lines(program: Source) -> int:
    """How many lines declare typed classes, and the pipeline in `build`."""
    lines, count = program.text.splitlines(), 0
    for node in program.tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            marks = node.decorator_list
            if node.name == "build" or any(ast.unparse(mark).startswith("tensorclass") for mark in marks):
                first = min(one.lineno for one in (node, *marks))
                count += code_lines(Source("part", "\n".join(lines[first - 1 : node.end_lineno])))
    return count


def table() -> str:
    """The lines of all programs in all forms, as a table of the page."""
    rows = [HEAD]
    for name, title in PROGRAMS.items():
        typed = source(EXAMPLES / f"{name}.py")
        counts = [*(code_lines(source(twin(name, form))) for form in FORMS), code_lines(typed), declared_lines(typed)]
        rows.append(f"| {title} | {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


def token_count(program: Source) -> int:
    """How many names, numbers, strings and operators a program has."""
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    return sum(token.type in kinds for token in tokenize.generate_tokens(io.StringIO(program.text).readline))


def short_table() -> str:
    """Lines and tokens of the short programs without imports, as a table of the page."""
    rows, total = [], [0, 0, 0, 0]
    for name, title in SHORT.items():
        pair = [without_imports(source(path)) for path in (twin(name, "dict"), EXAMPLES / f"{name}.py")]
        counts = [measure(program) for measure in (code_lines, token_count) for program in pair]
        total = [one + other for one, other in zip(total, counts, strict=True)]
        rows.append(f"| {title} | {' | '.join(map(str, counts))} |")
    head = "| program | lines: dict | tensorclass | tokens: dict | tensorclass |\n|---|---:|---:|---:|---:|"
    return "\n".join([head, *rows, f"| all | {' | '.join(map(str, total))} |"])


def assigned(program: Source) -> dict[str, str]:
    """The settings of a program: its names of upper case."""
    return {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in program.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).strip("()").isupper()
    }


def imported(program: Source) -> set[str]:
    """The packages that a program imports."""
    nodes = list(ast.walk(program.tree))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {
        name.partition(".")[0]
        for name in names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    }


def test_every_program_has_its_twins():
    """Ten programs in two other forms, five in one, and nothing else lies there."""
    assert (len(PROGRAMS), len(SHORT)) == (10, 5)
    assert sorted((EXAMPLES / "twins").glob("*.py")) == sorted(twin(*pair) for pair in PAIRS)


def test_the_page_has_the_lines():
    """The table of the page is what one function counts: lines of code without docstrings, comments and blanks."""
    page = (ROOT / "docs" / "which-tool.md").read_text("utf-8")
    for wanted in (table(), short_table()):
        assert wanted in page, f"docs/which-tool.md needs\n{wanted}"


def without_imports(program: Source) -> Source:
    """The program without its import statements, a line or several each."""
    nodes = [node for node in ast.walk(program.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    kept = ("" if n in imports else line for n, line in enumerate(program.text.splitlines(), 1))
    return Source(program.name, "\n".join(kept))


def test_declarations_cost_few_lines():
    """No program is more than 15 % longer than its twin with dicts; all together 2 %, and 5 % with their imports.

    The imports of the short programs weigh more, 8 %.
    """
    assert_short(PROGRAMS, 1.05)
    assert_short(SHORT, 1.08)


def assert_short(names: Iterable[str], most_whole: float):
    """Compare the lines of programs with those of their twins with dicts."""
    pairs = [(source(EXAMPLES / f"{name}.py"), source(twin(name, "dict"))) for name in names]
    whole = [(code_lines(typed), code_lines(plain)) for typed, plain in pairs]
    own = [(code_lines(without_imports(typed)), code_lines(without_imports(plain))) for typed, plain in pairs]
    assert max(typed / plain for typed, plain in [*whole, *own]) <= 1.15
    for counts, most in ((own, 1.02), (whole, most_whole)):
        assert sum(typed for typed, _ in counts) <= most * sum(plain for _, plain in counts)


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_twins_do_the_same_work(name: str, form: str):
    """A twin has the settings of the example, asserts the same numbers, and has only its own tool."""
    typed, other = source(EXAMPLES / f"{name}.py"), source(twin(name, form))
    assert ("tensordict" in imported(other), "tensorclass" in imported(other)) == (form == "tensordict", False)
    settings, wanted = assigned(other), assigned(typed)
    assert {key: settings.get(key) for key in wanted} == wanted
    assert set(asserted(typed.text)) - {1, 100} == set(asserted(other.text)) - {1, 100}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_twin_reaches_the_same(name: str, form: str, tmp_path: Path):
    """Each twin runs to its end, where it asserts its result, and reaches what the page of examples says."""
    path = twin(name, form)
    reached = [*numbers(run_program(path, tmp_path)), *asserted(path.read_text("utf-8"))]
    assert [claim for claim in claims(f"{name}.py") if not any(close(claim, one) for one in reached)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_short_programs_print_the_same(name: str, tmp_path: Path):
    """A short program and its twin print the same line."""
    assert run_program(EXAMPLES / f"{name}.py", tmp_path) == run_program(twin(name, "dict"), tmp_path)


MISTAKES = {
    "a misspelled field": {
        "dict": ('digits["image"], digits', 'digits["imgae"], digits'),
        "tensordict": ('in_keys=["image"]', 'in_keys=["imgae"]'),
        "tensorclass": ("stage(encoder, Digits.image)", "stage(encoder, Digits.imgae)"),
    },
    "a layer of the wrong width": dict.fromkeys((*FORMS, "tensorclass"), ("nn.Linear(128, 10)", "nn.Linear(64, 10)")),
    "labels of the wrong dtype": dict.fromkeys(
        (*FORMS, "tensorclass"),
        ("torch.tensor(labels, dtype=torch.int64)", "torch.tensor(labels, dtype=torch.float32)"),
    ),
}
FOUND = {
    "a misspelled field": ("`train()`: KeyError", "`train()`: KeyError", "`build()`: UnknownFieldError"),
    "a layer of the wrong width": ("`train()`: RuntimeError", "`train()`: RuntimeError", "`build()`: BuildError"),
    "labels of the wrong dtype": ("`train()`: RuntimeError", "`train()`: RuntimeError", "`load()`: SchemaError"),
}
"""In which function of the program a mistake is found, and by what error."""


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_where_mistakes_are_found(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The page says in which function of `digits.py` a mistake becomes an error, in each form of the program."""
    monkeypatch.chdir(tmp_path)
    found = []
    for form in (*FORMS, "tensorclass"):
        path = EXAMPLES / "digits.py" if form == "tensorclass" else twin("digits", form)
        right, wrong = MISTAKES[mistake][form]
        text = path.read_text("utf-8")
        assert text.count(right) == 1
        module = ModuleType("mistaken")
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, "mistaken", module)
        exec(compile(text.replace(right, wrong), str(path), "exec"), module.__dict__)
        with pytest.raises(Exception) as info:  # compared below
            module.main()
        inside = [entry.name for entry in info.traceback if str(entry.path) == str(path)]
        found.append(f"`{inside[1]}()`: {info.type.__name__}")
    assert tuple(found) == FOUND[mistake]
    assert f"| {mistake} | {' | '.join(found)} |" in (ROOT / "docs" / "which-tool.md").read_text("utf-8")


def test_lines_are_counted():
    """Docstrings, comments and blank lines don't count; classes and `build` are found."""
    text = '"""Doc."""\n\nimport torch  # why\n\n# why\n@tensorclass\nclass A:\n    """Doc."""\n\n    x: int\n'
    text += "\n\n@tensorclass(frozen=True)\nclass B(A):\n    y: int\n\n\nclass C:\n    z: int\n"
    text += "\n\ndef build():\n    return A(\n        1\n    )\n"
    assert code_lines(Source("a", text)) == 13
    assert declared_lines(Source("a", text)) == 10
