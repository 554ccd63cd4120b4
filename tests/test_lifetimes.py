"""Everything in the package that outlives a call is in one list: a new cache can't come in unseen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tensorclass.core._caches import KEPT
from tests._sources import Source, sources

CHANGES = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
    "setdefault", "update",
}  # fmt: skip
MAKERS = {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"}
CACHES = {"Classes", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary"}
CACHING = {"cache", "lru_cache"}
OUTSIDE = {
    "addFilter", "addHandler", "add_safe_globals", "pickle", "register_constant", "register_dataclass",
    "register_pytree_node", "simplefilter", "filterwarnings", "set_default_validate_args",
}  # fmt: skip
REGISTRIES = {"linecache.cache", "sys.modules", "sys.path", "sys.meta_path", "sys.path_hooks", "copyreg.dispatch_table"}
DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)


def kept(source: Source) -> set[str]:
    """What a file keeps: containers of a module or class that code changes, cached functions, registrations."""
    module = source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    made = dict(_containers(source.tree.body, ""))
    held = {name.rpartition(".")[2]: name for name in made}
    held |= {name: name for name in _imported(source.tree)}
    found = {f"{module}.{name}" for name, maker in made.items() if maker in CACHES}
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(_last(decorator) in CACHING for decorator in node.decorator_list):
                found.add(f"{module}.{node.name}")
            changed = {name for inner in ast.walk(node) for name in _changed(inner)}
            found.update(f"{module}.{held[_own(name)]}" for name in changed if _own(name) in held)
            found.update(f"{module}: {name}" for name in changed if name in REGISTRIES)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _last(node.value) in CACHING:
            found.add(f"{module}.{ast.unparse(node.targets[0])}")
        if isinstance(node, ast.Call) and _last(node) in OUTSIDE and "." in ast.unparse(node.func):
            found.add(f"{module}: {_last(node) if '(' in (name := ast.unparse(node.func)) else name}")
    return found


def _last(node: ast.expr) -> str:
    """The last name of what is called, or decorates."""
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _imported(tree: ast.Module) -> Iterator[str]:
    """The constants that a file takes from others of the package."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from (alias.asname or alias.name for alias in node.names if alias.name.isupper())


def _containers(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    """The containers that a module and its classes hold, each with what makes it."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _containers(statement.body, f"{prefix}{statement.name}.")
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            value = statement.value
            maker = _last(value) if isinstance(value, ast.Call) else ""
            if isinstance(value, DISPLAYS) or maker in MAKERS | CACHES:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                yield from ((f"{prefix}{target.id}", maker) for target in targets if isinstance(target, ast.Name))


def _changed(node: ast.AST) -> Iterator[str]:
    """What an expression changes, as it is written."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield ast.unparse(node.value)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield ast.unparse(node.func.value)
        # a bound method that is called later: `finalize(code, linecache.cache.pop, ...)`, `ref(cls, GONE.append)`
        for argument in node.args:
            if isinstance(argument, ast.Attribute) and argument.attr in CHANGES:
                yield ast.unparse(argument.value)


def _own(name: str) -> str:
    """The name of a container of the module, or of a class that names itself, `cls` or `type(self)`."""
    owner, _, last = name.rpartition(".")
    return last if not owner or owner in ("cls", "type(self)") or owner[:1].isupper() or owner == "timeit" else ""


def test_every_cache_is_listed() -> None:
    """The list and the source agree: nothing is kept that is not listed, and nothing is listed that is not there."""
    found = {place for source in sources() for place in kept(source)}
    assert sorted(found - KEPT.keys()) == []
    assert sorted(KEPT.keys() - found) == []
    assert all(KEPT.values())


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("A = {}\ndef f(x): A[x] = 1", {"m.A"}),
        ("A: dict = {}\ndef f(x): return A.setdefault(x, 1)", {"m.A"}),
        ("A = []\ndef f(x):\n    def g(): A.append(x)", {"m.A"}),
        ("class C:\n    known = set()\n    def f(self, x): C.known.add(x)", {"m.C.known"}),
        ("class C:\n    known = set()\n    @classmethod\n    def f(cls, x): cls.known.add(x)", {"m.C.known"}),
        ("A = WeakKeyDictionary()\ndef f(x): A[x] = 1", {"m.A"}),
        ("A = Classes()\ndef f(x): return A.get((x,), g)", {"m.A"}),
        ("@functools.lru_cache(maxsize=3)\ndef f(x): pass", {"m.f"}),
        ("@cache\ndef f(x): pass", {"m.f"}),
        ("from ._other import KNOWN\ndef f(x): KNOWN[x] = 1", {"m.KNOWN"}),
        ("f = functools.cache(g)", {"m.f"}),
        ("def f(m): sys.modules[m.__name__] = m", {"m: sys.modules"}),
        ("def f(n): finalize(n, linecache.cache.pop, n)", {"m: linecache.cache"}),
        ("def f(c): pytree.register_pytree_node(c)", {"m: pytree.register_pytree_node"}),
        ("A = {}\ndef f(x):\n    A = {}\n    return A", set()),
        ("A = {'a': 1}\ndef f(x): return A[x]", set()),
        ("class C:\n    def f(self, x): self.known[x] = 1", set()),
    ],
)
def test_what_is_found(text: str, places: set[str]) -> None:
    """What counts as kept."""
    assert kept(Source("m.py", text)) == places
