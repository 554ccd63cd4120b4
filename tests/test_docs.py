"""Every Python block of the README and the docs runs, and so do the doctests and the examples.

The blocks of one page are one program, run top to bottom in an empty folder. A block that shows an error stands below
`<!-- raises: ErrorName -->`; a block in another language, or `text`, is not run. A `text` block right below a program
is what the program prints, or a part of the message of its error; `...` in it stands for anything.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import math
import os
import re
import subprocess
import sys
import types
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from tests._sources import PACKAGE, ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
INSTALLERS = {"__main__.py", "_worker.py", "pytest.py"}
"""Files that do their work when they are imported."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in INSTALLERS)
EXAMPLES = sorted((ROOT / "examples").glob("[!_]*.py"))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n`]*\n(?P<code>.*?)^(?P=indent)```\s*$", re.M | re.S)
PLACE = re.compile(r"[^\s(]+\.(?:py|md):\d+")
RAISES = re.compile(r"<!-- raises: (?P<name>\w+) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block: its code, the line of the page where that starts, the error that it shows, what it prints."""

    code: str
    line: int
    raises: str | None
    prints: str | None = None


def python_blocks(text: str) -> list[Block]:
    """The blocks of a page that are programs."""
    blocks = []
    fences = list(FENCE.finditer(text))
    for fence, below in zip_longest(fences, fences[1:]):
        if fence["language"] not in ("python", "py"):
            continue
        shown = below is not None and below["language"] == "text" and not text[fence.end() : below.start()].strip()
        raises = RAISES.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start("code")) + 1
        code = re.sub(f"^{fence['indent']}", "", fence["code"], flags=re.M)
        prints = below["code"] if below is not None and shown else None
        blocks.append(Block(code, line, raises["name"] if raises else None, prints))
    return blocks


def same_output(shown: str, printed: str) -> bool:
    """Whether a page shows what a program prints; places in files may differ."""
    printed = printed.replace("RuntimeError: addmm: ", "RuntimeError: ")  # since torch 2.15
    want, got = (PLACE.sub("FILE", text.strip() + "\n") for text in (shown, printed))
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)


def run_block(block: Block, path: Path, namespace: dict[str, object]) -> None:
    """Run one block; tracebacks and `inspect.getsource` show the line of the page."""
    program = compile(ast.parse("\n" * (block.line - 1) + block.code, str(path)), str(path), "exec")
    output = io.StringIO()
    if block.raises is None:
        with contextlib.redirect_stdout(output):
            exec(program, namespace)
    else:
        with pytest.raises(Exception) as info:  # the page announces it by name, compared below
            exec(program, namespace)
        names = [cls.__name__ for cls in info.type.__mro__]
        assert block.raises in names, f"{path.name}:{block.line} raised {info.value!r}, not {block.raises}"
        output.write(str(info.value))
    if block.prints is not None:
        shown = block.prints if block.raises is None else f"...{block.prints.strip()}..."
        where = f"{path.name}:{block.line} prints\n{output.getvalue()}"
        assert same_output(shown, output.getvalue()), where


def run_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a page as the program of a module that is registered while it runs; returns the number of blocks."""
    module = types.ModuleType(f"page_{path.stem}")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = python_blocks(path.read_text("utf-8"))
    for block in blocks:
        run_block(block, path, module.__dict__)
    return len(blocks)


# They import the packages that they are about.
SLOW_PAGES = ("ecosystem", "trainers")


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in SLOW_PAGES], ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    """The Python blocks of a page run in order, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    run_page(page, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that they import
@pytest.mark.parametrize("name", SLOW_PAGES)
def test_slow_page(name, tmp_path, monkeypatch):
    """The same for pages of which the imports alone take seconds."""
    monkeypatch.chdir(tmp_path)
    assert run_page(ROOT / "docs" / f"{name}.md", monkeypatch)


def test_readme_shows_a_program():
    """The README leads with the decorator and has something to run."""
    blocks = python_blocks((ROOT / "README.md").read_text("utf-8"))
    assert "@tensorclass\nclass Digits:" in blocks[0].code


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def doctests(module: types.ModuleType) -> list[doctest.DocTest]:
    """The examples of a module; those of a method go on where the example of its class ends."""
    found = {test.name: test for test in doctest.DocTestFinder(exclude_empty=False).find(module)}
    for name, test in found.items():
        above = found.get(name.rpartition(".")[0])
        if test.examples and above is not None and above.name != module.__name__:
            test.examples = [*above.examples, *test.examples]
    return [test for test in found.values() if test.examples]


@pytest.mark.parametrize("name", [_module_name(path) for path in MODULES])
def test_doctests(name, tmp_path, monkeypatch):
    """The examples in the docstrings of a module print what they say; each begins in an empty folder."""
    for number, test in enumerate(doctests(importlib.import_module(name))):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        output = io.StringIO()
        doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=output.write)
        assert not output.getvalue(), output.getvalue()


def test_examples_page_shows_the_examples():
    """Every program of that page stands in an example, word for word."""
    programs = [path.read_text("utf-8") for path in EXAMPLES]
    for block in python_blocks((ROOT / "docs" / "examples.md").read_text("utf-8")):
        assert any(block.code in program for program in programs), block.code


IMPORTS_VISION = ("lightning_module",)
DECLARED = """
import runpy
from tests._vision import declare_operators

declare_operators()
runpy.run_path({!r}, None, "__main__")
"""


def run_program(program: Path, folder: Path) -> str:
    """Run a program in a folder, where it draws the pictures that it names; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = ["-c", DECLARED.format(str(program))] if program.stem.startswith(IMPORTS_VISION) else [str(program)]
    command = [sys.executable, *start]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pictures = re.findall(r'= Path\("build", "([\w.-]+)"\)', program.read_text("utf-8"))
    assert [name for name in pictures if (folder / "build" / name).stat().st_size < 1000] == []
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.stem)
def test_example(program, tmp_path):
    """Every example runs to its end as a program of its own, from any folder, and draws the pictures that it names."""
    reached = [*numbers(run_program(program, tmp_path)), *asserted(program.read_text("utf-8"))]
    assert [claim for claim in claims(program.name) if not any(close(claim, one) for one in reached)] == []


def claims(program: str) -> list[float]:
    """The numbers that the table of the page says a program reaches."""
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `examples/{program}` |"))
    return numbers(row.split("|")[-2])


def numbers(text: str) -> list[float]:
    """The numbers of a text; a percentage is as it is written."""
    return [float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)]


def asserted(source: str) -> list[float]:
    """The numbers in the assertions of a program, and what they are in percent."""
    tree = ast.parse(source)
    named = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    nodes = [
        named.get(ast.unparse(node), node)
        for check in ast.walk(tree)
        if isinstance(check, ast.Assert)
        for node in ast.walk(check)
    ]
    found = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, int | float)]
    return [factor * value for value in found for factor in (1, 100)]


def close(claim: float, value: float) -> bool:
    """Whether a program reaches what a page says: other processors round differently."""
    return math.isclose(claim, value, rel_tol=0.03)


def test_claims_are_compared():
    """A number that a program neither prints nor asserts is found; one that it rounds is not."""
    reached = [*numbers("accuracy: 93.10% on 360 images"), *asserted("LEAST = 475\nassert a > 0.9\nassert b >= LEAST")]
    assert [claim for claim in (93, 90, 475, 97, 0.5) if not any(close(claim, one) for one in reached)] == [97, 0.5]
    assert claims("lightning_module.py") == [90]


PAGE = """
Text.

```python
x = 1
```

Not what it prints:

```text
not python at all
```

- a list

  ```python
  y = x + 1
  ```

<!-- raises: ArithmeticError -->
```python
y / 0
```

```text
division by ...
```
"""


def test_blocks_are_found():
    """Only Python counts; indented fences are dedented; the announced error is read."""
    assert python_blocks(PAGE) == [
        Block("x = 1\n", 5, None),
        Block("y = x + 1\n", 17, None),
        Block("y / 0\n", 22, "ArithmeticError", "division by ...\n"),
    ]


def test_page_runs_as_one_program(tmp_path, monkeypatch):
    """Later blocks see earlier names, classes know their module, announced errors may be subclasses."""
    page = tmp_path / "good.md"
    page.write_text(PAGE + "```python\nclass A: ...\nimport sys\nassert sys.modules[A.__module__].x == 1\n```\n")
    assert run_page(page, monkeypatch) == 4


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nassert 1 == 2\n```\n", AssertionError),
        ("```python\nno_such_name\n```\n", NameError),
        ("```python\nif\n```\n", SyntaxError),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", AssertionError),
        ("<!-- raises: KeyError -->\n```python\n{}['x']\n```\n\n```text\n'y'\n```\n", AssertionError),
        ("<!-- raises: KeyError -->\n```python\n1 / 0\n```\n", AssertionError),
        ("<!-- raises: KeyError -->\n```python\n1\n```\n", pytest.fail.Exception),
    ],
)
def test_bad_page_fails(text, error, tmp_path, monkeypatch):
    """A wrong block, a missing error and another error all fail."""
    page = tmp_path / "bad.md"
    page.write_text(text)
    with pytest.raises(error):
        run_page(page, monkeypatch)


def test_traceback_names_the_line(tmp_path, monkeypatch):
    """An error in a block points at the line of the page."""
    page = tmp_path / "bad.md"
    page.write_text("# Title\n\n```python\nx = 1\nx.missing\n```\n")
    with pytest.raises(AttributeError) as info:
        run_page(page, monkeypatch)
    last = info.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("bad.md", 5)


def test_readme_fits_a_few_screens(tmp_path, monkeypatch):
    """It has at most 120 lines; its picture is what the library draws of the pipeline there."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page_picture")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in python_blocks(text):
        run_block(block, ROOT / "README.md", module.__dict__)
    (picture,) = (fence["code"] for fence in FENCE.finditer(text) if fence["language"] == "mermaid")
    assert picture.strip() == module.classifier.graph().strip()


ASKED = {
    "pad sequences": "padding ragged jagged mask collate_fn variable length",
    "move a batch": "cuda pin_memory non_blocking device gpu",
    "best checkpoint": "resume early stopping state_dict save load",
    "`torch.compile`": "compile a model graph breaks fullgraph dynamo",
    "subclass": "inherit inheritance extend add a field",
    "mixed precision": "autocast AMP bfloat16 half",
    "TensorBoard": "wandb Weights & Biases MLflow metrics logger",
    "images of different sizes": "variable size resolution boxes",
    "computed property": "cached_property derived method",
    "default factory": "default_factory mutable default value",
    "private state": "underscore attribute cache",
    "validation off": "disable checks skip production",
    "cost": "slow performance overhead benchmark",
    "DataFrame": "pandas list of dicts rows CSV",
    "loss": "criterion cross entropy",
}
"""What a newcomer asks: a part of the heading, and the words that people search for."""


@pytest.mark.parametrize("question", ASKED)
def test_questions_are_found_by_their_words(question):
    """The site searches headings and text of sections: the section of a question has the words for it."""
    sections = (ROOT / "docs" / "faq.md").read_text("utf-8").split("\n## ")[1:]
    (section,) = (text for text in sections if question in text.partition("\n")[0])
    assert [word for word in ASKED[question].split() if word.lower() not in section.lower()] == []
    assert "```python" in section or question == "cost"
