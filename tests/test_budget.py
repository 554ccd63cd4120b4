"""Sizes and small habits: short files and functions, coded ignores, explained handlers, documented public names."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import statistics

import pytest

from tests._sources import PACKAGE, Source, handwritten, sources, text_files
from tests.size import as_formatted, code_lines

FILE_LINES = 600
FUNCTION_LINES = 60
MEDIAN_LINES = 200

BARE_IGNORE = re.compile(r"#\s*(type|pyright):\s*ignore(?!\[)")
# Absolute paths that exist on one machine only; tests use tmp_path, documents use relative paths.
MACHINE_PATH = re.compile(r"(?:^|[^\w.~])/(?:tmp|work|root|farm|opt|home|Users)/\w")


def long_files(source: Source) -> list[str]:
    """The file, when it is over the limit."""
    return [f"{source.name}: {source.lines} lines, {FILE_LINES} at most"] if source.lines > FILE_LINES else []


def long_functions(source: Source) -> list[str]:
    """Functions over the limit, decorators included; a docstring does not count."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            size = (node.end_lineno or first) - first + 1
            if ast.get_docstring(node, clean=False) is not None:
                size -= (node.body[0].end_lineno or first) - node.body[0].lineno + 1
            if size > FUNCTION_LINES:
                found.append(f"{source.name}:{first}: `{node.name}` has {size} lines, {FUNCTION_LINES} at most")
    return found


def bare_ignores(source: Source) -> list[str]:
    """`type: ignore` comments that do not say which error they silence."""
    return [
        f"{source.name}:{line}: `{comment}` names no code"
        for line, comment in source.comments.items()
        if BARE_IGNORE.search(comment)
    ]


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(t, ast.Name) and t.id in ("Exception", "BaseException") for t in types)


def broad_handlers(source: Source) -> list[str]:
    """Handlers that catch everything without a reason on their line; a linter directive is no reason."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node):
            comment = source.comments.get(node.lineno, "#")
            reason = re.sub(r"#\s*noqa(:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?", "", comment).strip("#- ")
            if not reason:
                found.append(f"{source.name}:{node.lineno}: catches everything without a reason on the line")
    return found


def nested_conditions(source: Source) -> list[str]:
    """Conditional expressions inside another one, at any depth."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.IfExp)]
    outer = [node for node in nodes if any(isinstance(part, ast.IfExp) and part is not node for part in ast.walk(node))]
    return [f"{source.name}:{node.lineno}: give the parts a name" for node in outer]


def long_conditions(source: Source) -> list[str]:
    """Conditions of more than four operands, those of inner conditions included."""
    counts = [(node, _operands(node)) for node in ast.walk(source.tree) if isinstance(node, ast.BoolOp)]
    return [f"{source.name}:{node.lineno}: {count} operands, name some" for node, count in counts if count > 4]


def _operands(node: ast.expr) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _operands(node.operand)
    return sum(map(_operands, node.values)) if isinstance(node, ast.BoolOp) else 1


def machine_paths(name: str, text: str) -> list[str]:
    """Lines of any tracked file that name a path of one machine."""
    lines = enumerate(text.splitlines(), 1)
    return [f"{name}:{number}: {line.strip()[:80]}" for number, line in lines if MACHINE_PATH.search(line)]


def public_names(source: Source) -> list[str]:
    """The names that an `__init__.py` re-exports."""
    imports = [node for node in source.tree.body if isinstance(node, ast.ImportFrom)]
    names = [alias.asname or alias.name for node in imports for alias in node.names]
    return [name for name in names if not name.startswith("_")]


def lacks_docstring(value: object) -> bool:
    """Whether a class or function says nothing about itself; what dataclasses write for their class is nothing.

    Names for classes and functions of Python itself have a text beside them.
    """
    if (getattr(value, "__module__", None) or "").partition(".")[0] in ("builtins", "copyreg"):
        return False
    if inspect.isclass(value):
        doc = value.__dict__.get("__doc__")
        return not doc or doc.startswith(f"{value.__name__}(")
    return inspect.isroutine(value) and not value.__doc__


@pytest.mark.parametrize("check", [long_files, long_functions], ids=lambda check: check.__name__)
def test_package_sizes(check):
    """Hand-written files and functions keep their limits."""
    problems = [problem for source in handwritten() for problem in check(source)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "check", [bare_ignores, broad_handlers, nested_conditions, long_conditions], ids=lambda check: check.__name__
)
def test_package_habits(check):
    """Generated files keep these too: nobody reads an unexplained ignore better because a program wrote it."""
    problems = [problem for source in sources() for problem in check(source)]
    assert not problems, "\n".join(problems)


def test_files_are_short():
    """Half of the files have at most 200 lines; `make size` prints the lines of each room."""
    assert statistics.median([source.lines for source in handwritten()]) <= MEDIAN_LINES


def test_code_lines():
    """Docstrings, comments and blank lines are no code; a string that is used is."""
    text = (
        '"""Doc."""\n\n# why\nx = """a\nb"""\n\n\ndef f():\n    """Doc\n\n    of f.\n    """\n    return x  # because\n'
    )
    assert code_lines(Source("core/_a.py", text)) == 4


def test_packed_lines_count_as_formatted():
    """`fmt: skip` and `fmt: off` hide nothing from the count."""
    packed = "x = {\n    1: 2, 3: 4,\n    5: 6,\n}  # fmt: skip\n# fmt: off\ny = [1,\n     2]\n"
    (source,) = as_formatted([Source("core/_a.py", packed)])
    assert source.text == "x = {\n    1: 2,\n    3: 4,\n    5: 6,\n}\ny = [1, 2]\n"


def test_no_machine_paths():
    """Nothing in the repository points into somebody's machine."""
    problems = [problem for name, text in text_files() for problem in machine_paths(name, text)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("init", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_public_names_are_documented(init):
    """Every class and function that a room exports has a docstring of its own."""
    folders = init.parent.relative_to(PACKAGE.parent).parts
    package = importlib.import_module(".".join(folders))
    names = public_names(Source("__init__.py", init.read_text("utf-8")))
    names = [name for name in names if name != "*"]  # the names of another `__init__` or of a listed module
    assert [name for name in names if lacks_docstring(getattr(package, name))] == []


def test_long_files_are_found():
    """One line over the limit is too many; the limit itself is not."""
    assert long_files(Source("a.py", "x = 1\n" * FILE_LINES)) == []
    assert len(long_files(Source("a.py", "x = 1\n" * (FILE_LINES + 1)))) == 1


def test_long_functions_are_found():
    """Decorators count, docstrings do not, nested functions are seen, the limit itself is allowed."""
    body = "        x = 1\n" * (FUNCTION_LINES - 1)
    fits = f"class A:\n    def f(self):\n{body}"
    assert long_functions(Source("a.py", fits)) == []
    assert (
        long_functions(
            Source("a.py", fits.replace("(self):\n", '(self):\n        """One.\n\n        Two.\n        """\n'))
        )
        == []
    )
    assert len(long_functions(Source("a.py", fits.replace("    def", "    @d\n    def")))) == 1


def test_nested_conditions_are_found():
    """In either branch or in the test; two beside one another are none."""
    assert nested_conditions(Source("a.py", "x = a if b else c\ny = [d if e else f]")) == []
    chain, both, asked = (
        "x = a if b else c if d else e",
        "x = (a if b else c) if d else e",
        "x = a if (b if c else d) else e",
    )
    for text in (chain, both, asked, "x = f(a if b else c) if d else e"):
        assert len(nested_conditions(Source("a.py", text))) == 1


def test_long_conditions_are_found():
    """Operands of inner conditions and of `not` count too; a name counts as one."""
    assert long_conditions(Source("a.py", "x = a and b and c and d\nif x and (e or not f):\n    pass")) == []
    for text in ("x = a and b and c and d and e", "x = a and not (b or c) and (d or e)"):
        assert len(long_conditions(Source("a.py", text))) == 1


def test_generated_files_have_no_limit(tmp_path):
    """A file whose first line says that it is generated is left out of the size checks, another is not."""
    (tmp_path / "_generated.py").write_text("# Generated by python -m something; do not edit.\n" + "x = 1\n" * 700)
    (tmp_path / "_by_hand.py").write_text("x = 1\n# Generated? no\n")
    (tmp_path / "_generate.py").write_text('"""Writes the generated methods."""\n')
    assert [source.name for source in handwritten(tmp_path)] == ["_by_hand.py", "_generate.py"]
    assert len(sources(tmp_path)) == 3


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x = 1  # type: ignore", 1),
        ("x = 1  # type:ignore # because", 1),
        ("x = 1  # pyright: ignore", 1),
        ("x = 1  # type: ignore[assignment] # because", 0),
        ("x = '# type: ignore'", 0),
    ],
)
def test_bare_ignores_are_found(line, count):
    """Only comments count, and only those without a code."""
    assert len(bare_ignores(Source("a.py", line))) == count


@pytest.mark.parametrize(
    ("handler", "count"),
    [
        ("except:", 1),
        ("except Exception:", 1),
        ("except BaseException as error:", 1),
        ("except (ValueError, Exception):", 1),
        ("except Exception:  # noqa: BLE001", 1),
        ("except Exception:  # the user's callable may raise anything", 0),
        ("except (ValueError, KeyError):", 0),
    ],
)
def test_broad_handlers_are_found(handler, count):
    """Catching everything needs a reason on its line."""
    assert len(broad_handlers(Source("a.py", f"try:\n    f()\n{handler}\n    pass\n"))) == count


@pytest.mark.parametrize("folder", ["tmp", "work", "home", "root", "opt"])
def test_machine_paths_are_found(folder):
    """Absolute paths are found in code and prose; relative ones and URLs are none."""
    path = f"/{folder}/me/file"
    assert machine_paths("a.md", f"see {path}\nopen('{path}')\n{path}") != []
    assert len(machine_paths("a.md", f"see {path}\nopen('{path}')\n{path}")) == 3
    assert machine_paths("a.md", f"see .{path}, docs{path}") == []


def test_missing_docstrings_are_found():
    """A docstring that is inherited or written by `dataclass` documents nothing."""

    class Documented:
        """Says what it is."""

    class Inherits(Documented):
        pass

    def plain() -> None: ...

    def documented() -> None:
        """Says what it does."""

    assert lacks_docstring(Inherits)
    assert lacks_docstring(plain)
    assert lacks_docstring(type("Point", (), {"__doc__": "Point(x: int)"}))
    assert not lacks_docstring(Documented)
    assert not lacks_docstring(documented)
    assert not lacks_docstring(3)


def test_public_names_are_read():
    """Names come under the alias that users see; private ones are left out."""
    code = "from ._x import y as y, _z as _z\nfrom ._w import a as b"
    assert public_names(Source("__init__.py", code)) == ["y", "b"]
