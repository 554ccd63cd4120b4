"""Dependencies point left only: the imports of every file are read, also those in functions and under TYPE_CHECKING."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests._sources import PACKAGE, Source, sources

# Rooms of one column do not know each other.
COLUMNS = (
    ("errors", "_config", "_deferred", "_flags", "_system"),
    ("_budget", "_places"),
    ("_content",),
    ("_dims", "_kinds", "_operations", "_options"),
    ("_schema", "core"),
    ("ops",),
    ("store",),
    ("classes",),
    ("nn",),
    ("io",),
    ("parallel",),
    ("typecheck", "cli"),
    ("compat",),
)
# Folders of a room, and files between them, in the same form; the other files of the room come after all of them.
# Files of one column make up one thing and know each other.
FOLDERS = {
    "nn": (("parts", "functional"), ("check", "distributions"), ("probe",), ("typed",), ("keyed",)),
    "store": (
        ("entries",),
        (
            "_fitting",
            "_values",
            "_consolidate",
            "_pad",
            "_bridges",
            "_saving",
            "_tables",
            "_scale",
            "_relaid",
            "_combine",
            "_dict_steps",
            "_dict",
        ),
        ("lazy",),
    ),
    "typecheck": (("_rules", "_refused", "_stub_types"), ("plugin", "stubs")),
}
LATE = {
    "classes/_dataclass.py": ["ConversionOps._dataclass_as_class"],
    "store/_dict.py": ["TensorCollection._dense"],
    "store/lazy/_functions.py": [
        "LazyOps._lazy_stack", "LazyOps._maybe_dense_stack", "LazyOps._densified", "LazyOps._unnested",
        "LazyOps._value_as",
    ],
    "store/entries/_nested.py": ["Ragged.node", "Ragged.held", "Ragged.over"],
    "store/entries/_non_tensor.py": ["View.object_type"],
}  # fmt: skip
"""What a file gives to a class of another file when it is imported: each is a hidden arrow to the right."""
FACES = {
    "_schema": {
        "_accepted", "_check", "_constraints", "_convert", "_domain", "_dtypes", "_json", "_json_keys",
        "_json_schema", "_schema", "_scope", "_spec",
    },
    "core": set(),
    "ops": {
        "_apply", "_at_once", "_by_row", "_compare", "_conversions", "_device", "_distributed", "_index",
        "_inplace", "_join", "_keys", "_lengths", "_mapping", "_nesting", "_objects", "_one_block",
        "_operands", "_pairs", "_reading", "_shape", "_stacks", "_steps", "_undo", "_writable",
    },
    "store": {
        "_bridges", "entries._agreement", "entries._non_tensor", "entries._ragged", "entries._rows",
    },
    "classes": {
        "_build", "_compile", "_conveniences", "_convert", "_example", "_facts", "_json", "_validators",
    },
    "nn": {
        "parts._results", "parts._seeded", "typed._sequential",
    },
    "io": {
        "_access", "_advice", "_atomic", "_documents", "_file_kinds", "_format", "_inspect", "_lock", "_manifest",
        "_memmap", "_optional", "_orders", "_pack", "_progress", "_segments", "_writer",
        "exchange._formats",
    },
    "typecheck": {
        "_lint", "plugin._plugin", "stubs._project", "stubs._pyi",
    },
}  # fmt: skip
"""The modules of a room that others import from, where its `__init__` does not have a name; the rest is its own."""
BRIDGES = "store/_bridges.py"  # thin container methods whose work lives to the right
OPTIONAL = "io/_optional.py"  # the one door to packages that may be missing
PUBLIC_MODULES = {"nn/functional_modules.py", "compat/pytest.py"}
"""Public module names: one that migrating programs import, and a plugin of pytest."""
FRONT = {
    "__init__", "__main__", "_api", "_api_files", "base", "functional", "persistent", "tensordict", "typedtensordict",
    "utils",
}  # fmt: skip
"""Files beside the rooms: the package itself, and modules that only give its names to migrating programs."""
WHOLE = "(the whole package)"  # `import tensorclass` from inside it


def _allowed() -> dict[str, set[str]]:
    left: set[str] = set()
    table: dict[str, set[str]] = {}
    for column in COLUMNS:
        table.update({room: {room} | left for room in column})
        left |= set(column)
    for room in ("_config", "_flags"):
        table[room] |= {"errors", "_flags"}  # what is set wrongly is said in the package's own words
    everything = left - {"compat"} | {"typing"}  # nothing imports the layer
    for room in ("classes", "nn", "io", "parallel"):
        table[room].add("typing")
    table["typing"] = {"_schema"}
    table["typecheck"].add("typing")
    table["cli"] = everything | {WHOLE}
    table["compat"].add(WHOLE)
    table["mypy_plugin"] = everything
    table["testing"] = everything | {WHOLE, "testing"}
    return table


ALLOWED = _allowed()


def room_of(name: str) -> str:
    """`store/_dense.py` -> `store`, `errors.py` -> `errors`, `__init__.py` -> the whole package."""
    first = name.partition("/")[0].removesuffix(".py")
    return WHOLE if first in FRONT else first


def _package_of(name: str) -> list[str]:
    return ["tensorclass", *name.split("/")[:-1]]


def _room(module: list[str]) -> str | None:
    if module[:1] != ["tensorclass"]:
        return None
    return module[1] if len(module) > 1 and module[1] in ALLOWED else WHOLE


def _targets(node: ast.AST, name: str) -> Iterator[list[str]]:
    """The modules that a node imports, as dotted parts; `from x import y` is `x.y`, since y may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name.split(".") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = _package_of(name)
        base = package[: len(package) - node.level + 1] if node.level else []
        base = base + (node.module.split(".") if node.module else [])
        yield from ([*base, alias.name] for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function = getattr(node.func, "attr", getattr(node.func, "id", ""))
        module = node.args[0].value
        if function in ("import_module", "__import__") and isinstance(module, str):
            yield module.split(".")


def wrong_layers(source: Source) -> list[str]:
    """Imports that point right."""
    here = room_of(source.name)
    if here == WHOLE or source.name == BRIDGES:
        return []
    if here not in ALLOWED:
        return [f"{source.name}: `{here}` is not a room of the house; see docs/internals.md"]
    found = []
    for node in ast.walk(source.tree):
        rooms = {_room(target) for target in _targets(node, source.name)} - {None}
        found += [(node.lineno, str(room)) for room in sorted(rooms, key=str) if room not in ALLOWED[here]]
    return [f"{source.name}:{line}: `{here}` imports `{room}`" for line, room in found]


def wrong_folders(source: Source) -> list[str]:
    """Imports of a folder of a room that point to a folder on its right, or to the room's own files."""
    room, *rest = source.name.split("/")
    if room not in FOLDERS or not rest:
        return []
    columns = FOLDERS[room]
    part = rest[0].removesuffix(".py")
    here = next((n for n, column in enumerate(columns) if part in column), None)
    if here is None:
        return [f"{source.name}: `{part}` is not a folder of `{room}`; see docs/internals.md"] if len(rest) > 1 else []
    allowed = {part, *(name for column in columns[:here] for name in column)}
    allowed.update(name for name in columns[here] if part.startswith("_") and name.startswith("_"))
    targets = [(node.lineno, t) for node in ast.walk(source.tree) for t in _targets(node, source.name)]
    inside = [(line, t[2] if len(t) > 2 else "") for line, t in targets if t[:2] == ["tensorclass", room]]
    return [f"{source.name}:{line}: `{part}` imports `{name}`" for line, name in inside if name not in allowed]


@cache
def _face(room: str) -> set[str]:
    """The names in the `__init__.py` of a room."""
    init = PACKAGE / room / "__init__.py"
    return _names_given(init) if init.exists() else set()


def _names_given(file: Path) -> set[str]:
    """The names that a file of re-exports gives; a star gives those of the other module."""
    tree = ast.parse(file.read_text("utf-8"))
    names = _listed(tree)
    for node in tree.body if not names else ():
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            module = file.parent / str(node.module)  # type: ignore[union-attr]  # an import
            inner = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            names |= _names_given(inner) if alias.name == "*" else {alias.asname or alias.name}
    return names


def past_faces(source: Source) -> list[str]:
    """Imports from another room that go past its face: its `__init__`, and the modules that it shows."""
    here = source.name.partition("/")[0]
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom) and source.name != BRIDGES]
    found = []
    for node in nodes:
        for target in _targets(node, source.name):
            room, *path = target[1:] if target[0] == "tensorclass" and len(target) > 2 else [here]
            if room == here or room not in FACES:
                continue
            *module, name = path
            inner = next((n for n, part in enumerate(path) if part.startswith("_")), None)
            shown = ".".join(path[: inner + 1]) if inner is not None else ""
            if inner is not None and shown not in FACES[room]:
                found.append(f"{source.name}:{node.lineno}: `{shown}` of `{room}` is not shown to other rooms")
            elif module and (name.startswith("_") or name in _face(room)) and inner != len(module):
                why = "is private" if name.startswith("_") else f"is in the face of `{room}`"
                found.append(f"{source.name}:{node.lineno}: `{name}` {why}")
    return found


def late_assignments(source: Source) -> list[str]:
    """Assignments to classes that a file imports, other than those in `LATE`."""
    imported = {a.asname or a.name for n in source.tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    targets = [target for node in source.tree.body if isinstance(node, ast.Assign) for target in node.targets]
    found = [
        ast.unparse(t)
        for t in targets
        if isinstance(t, ast.Attribute) and ast.unparse(t.value).split(".")[0] in imported
    ]
    return [f"{source.name}: `{name}`" for name in found if name not in LATE.get(source.name, [])]


def _is_type_checking(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    return isinstance(node.test, ast.Name | ast.Attribute) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _imports_in(node: ast.AST, inside: bool) -> Iterator[int]:
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if _is_type_checking(node):
        return
    if inside and isinstance(node, ast.Import | ast.ImportFrom):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _imports_in(child, inside)


def late_imports(source: Source) -> list[str]:
    """Imports inside functions."""
    if source.name in (BRIDGES, OPTIONAL):
        return []
    return [f"{source.name}:{line}: import inside a function" for line in _imports_in(source.tree, False)]


def _reexports(node: ast.stmt, listed: set[str]) -> bool:
    if isinstance(node, ast.ImportFrom):
        return all(
            a.asname is not None or a.name in listed or a.name == "*" or a.name.startswith("_") for a in node.names
        )
    if isinstance(node, ast.Assign):
        return all(isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets)
    finds_others = ast.unparse(node) == "_deferred.find_names_elsewhere(globals())"  # those of `tensordict` do
    return finds_others or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _listed(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def misplaced_code(source: Source) -> list[str]:
    """Public file names in rooms, and `__init__.py` files that do more than re-export."""
    *folders, file = source.name.split("/")
    problems = []
    listed = _listed(source.tree)
    bad = [node.lineno for node in source.tree.body if not _reexports(node, listed)]
    gives_names = not bad and any(isinstance(node, ast.ImportFrom) for node in source.tree.body)
    if folders and not file.startswith("_") and source.name not in PUBLIC_MODULES and not gives_names:
        problems.append(f"{source.name}: files of a room start with `_`, unless they only re-export")
    if (folders and file == "__init__.py") or (not folders and room_of(file) == WHOLE and not file.startswith("__")):
        problems += [f"{source.name}:{line}: only re-exports belong here (`from ._x import y as y`)" for line in bad]
    return problems


CHECKS = (wrong_layers, wrong_folders, past_faces, late_imports, late_assignments, misplaced_code)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_package(check):
    """The package itself keeps each rule."""
    problems = [problem for source in sources() for problem in check(source)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("core/_a.py", "from ..store import TensorDict"),
        ("core/_a.py", "from ..store._dense import TensorDict"),
        ("core/_a.py", "from .. import ops"),
        ("core/_a.py", "import tensorclass.classes._build"),
        ("core/_a.py", "import tensorclass.nn as nn"),
        ("core/_a.py", "from tensorclass import io"),
        ("core/_a.py", "from tensorclass import TensorDict"),
        ("core/_a.py", "import tensorclass"),
        ("core/_a.py", "from .._schema import Schema"),
        ("_schema/_a.py", "from ..core import keys"),
        ("_schema/deep/_a.py", "from ...core import keys"),
        ("io/_a.py", "from ..parallel import map"),
        ("typecheck/_a.py", "from ..cli import main"),
        ("errors.py", "from . import _config"),
        ("errors.py", "from .core import x"),
        ("typing.py", "from .core import x"),
        ("ops/__init__.py", "from ..store import x as x"),
        ("ops/_a.py", "if TYPE_CHECKING:\n    from ..store import TensorDict"),
        ("ops/_a.py", "def f():\n    from ..store import TensorDict"),
        ("ops/_a.py", "import importlib\nimportlib.import_module('tensorclass.store')"),
        ("helpers/_a.py", "import torch"),
        ("helpers.py", "import torch"),
    ],
)
def test_wrong_layers_are_found(name, code):
    """Every spelling of an import that points right is reported once."""
    assert len(wrong_layers(Source(name, code))) == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("core/_a.py", "import torch\nfrom ..errors import KeyPathError\nfrom .. import _config\nfrom ._b import f"),
        ("ops/_a.py", "from ..core import keys\nfrom .._schema import Schema"),
        ("store/_bridges.py", "def save(self):\n    from ..io import save"),
        ("classes/_a.py", "from ..typing import Float32\nfrom tensorclass.store._dense import TensorDict"),
        ("typing.py", "from typing import Annotated\nfrom ._schema import Shape as Shape"),
        ("cli.py", "import tensorclass\nfrom tensorclass.typecheck import stubs"),
        ("__init__.py", "from .nn import x as x"),
    ],
)
def test_right_layers_pass(name, code):
    """Imports that point left, other packages and the one bridge are no findings."""
    assert wrong_layers(Source(name, code)) == []


@pytest.mark.parametrize(
    ("name", "code", "count"),
    [
        ("nn/parts/_a.py", "from ..check._b import x", 1),
        ("nn/parts/_a.py", "from ..functional import _b", 1),
        ("nn/parts/_a.py", "from .. import utils", 1),
        ("nn/parts/_a.py", "from ...nn import TensorDictModule", 1),
        ("nn/typed/_a.py", "def f():\n    from ..keyed._b import x", 1),
        ("nn/other/_a.py", "", 1),
        ("nn/keyed/_a.py", "from ..typed._b import x\nfrom ._c import y\nfrom ...core import z", 0),
        ("nn/common.py", "from .keyed._b import x as x", 0),
        ("typecheck/plugin/_a.py", "from .. import _rules", 0),
        ("typecheck/plugin/_a.py", "from ..stubs._b import x", 1),
        ("store/lazy/_a.py", "from .._dict import x\nfrom ..entries._b import y", 0),
        ("store/lazy/_a.py", "from .._params import x", 1),
        ("store/entries/_a.py", "from .._dict import x", 1),
        ("store/_dict.py", "from .lazy._stack import x", 1),
        ("store/_params.py", "from .lazy._stack import x", 0),
    ],
)
def test_wrong_folders_are_found(name, code, count):
    """Inside a room with folders, imports point left too."""
    assert len(wrong_folders(Source(name, code))) == count


@pytest.mark.parametrize(
    ("name", "code", "count"),
    [
        ("store/_a.py", "from ..core import Key, changed\nfrom ._dict import _x", 0),
        ("store/_a.py", "from ..core._locks import changed", 1),
        ("store/_a.py", "from ..core._entry import batch_shape", 1),
        ("store/_a.py", "from ..core._base import _private", 1),
        ("store/_a.py", "from ..core._keys import Key", 1),
        ("store/_a.py", "from ..core import _entry", 1),
        ("io/_a.py", "from ..classes import _json\nfrom ..store.entries._rows import spans_of", 0),
        ("io/_a.py", "def f():\n    from ..store.entries._object_table import Slots", 1),
    ],
)
def test_imports_past_a_face_are_found(name, code, count):
    """Another room's names come from its `__init__`, or from a module that it shows; private ones never."""
    assert len(past_faces(Source(name, code))) == count


def test_the_page_has_the_order():
    """docs/internals.md shows the rooms in the order that is enforced here."""
    page = (PACKAGE.parent / "docs" / "internals.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if line.startswith("    errors, "))
    shown = [tuple(column.replace(" | ", ", ").strip().split(", ")) for column in line.split("<-")]
    assert shown == list(COLUMNS)


def test_faces_are_in_use():
    """A module that no other room imports from is the room's own again."""
    imported = {
        ".".join(target[1:])
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom)
        for target in _targets(node, source.name)
        if target[1:2] != source.name.split("/")[:1]
    }
    shown = [f"{room}.{module}" for room, modules in FACES.items() for module in modules]
    assert [face for face in shown if not any(name == face or name.startswith(f"{face}.") for name in imported)] == []


def test_late_assignments_are_listed():
    """A class that a file imports gets something only where the list has it, and the list has no more."""
    assert late_assignments(Source("store/_a.py", "from ..core import A\nA.f = 1\n\nclass B: ...\nB.f = 1")) != []
    assert (
        late_assignments(Source("store/_dict.py", "from ..core import TensorCollection\nTensorCollection._dense = 1"))
        == []
    )
    texts = {source.name: source.text for source in sources()}
    assert [name for file, names in LATE.items() for name in names if f"\n{name} = " not in texts[file]] == []


@pytest.mark.parametrize(
    ("name", "code", "count"),
    [
        ("nn/_a.py", "def f():\n    import torch", 1),
        ("nn/_a.py", "class A:\n    async def f(self):\n        from . import _b", 1),
        ("nn/_a.py", "def f():\n    if x:\n        import a\n        import b", 2),
        ("nn/_a.py", "import torch\nif TYPE_CHECKING:\n    import a", 0),
        ("nn/_a.py", "def f():\n    if typing.TYPE_CHECKING:\n        import a", 0),
        ("io/_optional.py", "def f():\n    import h5py", 0),
        ("store/_bridges.py", "def f():\n    from ..io import save", 0),
    ],
)
def test_late_imports_are_found(name, code, count):
    """An import inside a function is reported unless the file may."""
    assert len(late_imports(Source(name, code))) == count


@pytest.mark.parametrize(
    ("name", "code", "count"),
    [
        ("ops/shape.py", "", 1),
        ("ops/_shape.py", "", 0),
        ("ops/shape.py", "from ._shape import x as x", 0),
        ("ops/shape.py", "from ._shape import x as x\ntable = {}", 1),
        ("utils.py", "from ._api import x as x\ntable = {}", 1),
        ("errors.py", "", 0),
        ("ops/__init__.py", '"""Doc."""\nfrom ._x import y as y\nfrom . import _register\n__version__ = "1"', 0),
        ("ops/__init__.py", "from ._x import y", 1),
        ("ops/__init__.py", "from ._x import y\n__all__ = ['y']", 0),
        ("ops/__init__.py", "from ._x import *", 0),
        ("ops/__init__.py", "import torch", 1),
        ("ops/__init__.py", "def f(): ...", 1),
        ("ops/__init__.py", "table = {}", 1),
    ],
)
def test_misplaced_code_is_found(name, code, count):
    """Public file names in a room and code in `__init__.py` are reported."""
    assert len(misplaced_code(Source(name, code))) == count


def test_bad_tree_fails(tmp_path: Path):
    """The checks see the files of a whole folder, with names relative to it."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "shape.py").write_text("def f():\n    from ..store import TensorDict\n")
    (tmp_path / "__init__.py").write_text("from .core.shape import f as f\n")
    problems = [problem for source in sources(tmp_path) for check in CHECKS for problem in check(source)]
    assert [problem.partition(": ")[0] for problem in problems] == [
        "core/shape.py:2",
        "core/shape.py:2",
        "core/shape.py",
    ]
