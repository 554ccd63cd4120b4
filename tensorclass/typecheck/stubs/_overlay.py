"""Types under which torch's functions take containers: `torch.stack([batch, batch])` is of the class of `batch`.

Made from the modules of the installed torch, with an additional overload for each function in the table that containers
support. A `DataLoader` over a container returns its class.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ..._operations import JOINS, LIKE, POINTWISE, TORCH_FUNCTIONS
from ...classes import TensorClass
from ...core import TensorCollection
from ._project import Function, SourceFile, StubError
from ._pyi import MARK, Module, Stubs, split_future

PACKAGE = "packages/torch-stubs"
"""The partial package that mypy, ty and pyrefly find on the path; pyright would treat it as all of torch."""
LOADER = "utils/data/dataloader.py"
MODULES = {
    "_C/_VariableFunctions.pyi": ("typings/torch", PACKAGE),
    "functional.py": (PACKAGE,),
    LOADER: ("typings/torch", PACKAGE),
}
"""The modules that declare functions of torch's namespace, and the folders for pyright (`stubPath`) and for others.

A module straight below `torch` hides all of torch from pyright: it takes the folder for the package. ty and pyrefly
do not compare a `DataLoader` with the class that its items must have, and mypy has a plugin.
"""
HEAD = """\
from collections.abc import Iterator as _Iterator, Sequence as _Sequence
from typing import TypeVar as _TypeVar, overload as _overload
from tensorclass import TensorCollection as _TensorCollection
from tensorclass.core._base import Exactly as _Exactly
_Batch = _TypeVar("_Batch", bound=_TensorCollection)"""
SUBJECTS = {"input": "_Batch", "tensor": "_Batch", "tensors": "_Sequence[_Batch]"}
"""The parameters that accept containers instead of tensors; masks and indices stay tensors."""
RESULTS = {"Tensor": "_Batch", "tuple[Tensor, ...]": "tuple[_Batch, ...]", "_bool": "_bool"}
BODY: list[ast.stmt] = [ast.Expr(ast.Constant(...))]


def overlay(out: Path) -> dict[Path, str]:
    """The files of the overlay below a folder.

    Raises:
        StubError: when the installed torch has no stubs, or they have another form.
    """
    found = find_spec("torch")
    root = Path(found.origin).parent if found is not None and found.origin else Path("torch")
    names, added, texts = supported_functions(), set[str](), dict[Path, str]()
    for module, places in MODULES.items():
        file = SourceFile(root / module, f"torch.{module.partition('.')[0].replace('/', '.')}")
        lines = [f"{MARK} torch's own; run it again after an update of torch.", *_lines(file, names, added)]
        text = "\n".join(lines) + "\n"
        text = _loading(text, file) if module == LOADER else text
        texts |= {(out / place / module).with_suffix(".pyi"): text for place in places}
    if len(added) < len(names) / 2:
        raise StubError(f"{root}: declares {len(added)} of the {len(names)} functions; this torch is not known")
    return {**texts, out / PACKAGE / "py.typed": "partial\n"}


def supported_functions() -> set[str]:
    """The names of torch's functions that return a container of the class of their argument, or a bool."""
    names = {*TORCH_FUNCTIONS, *(function.__name__ for function in TensorCollection._torch_functions)}
    return {name for name in names if name in (*JOINS, *LIKE) or _keeps_class(POINTWISE.get(name) or name)}


def _keeps_class(name: str) -> bool:
    method = inspect.getattr_static(TensorClass, name, None)
    said = getattr(getattr(method, "__func__", method), "__annotations__", {}).get("return", "")
    return name == "equal" or said in ("Self", "tuple[Self, ...]") or name == "where"


def _lines(file: SourceFile, names: set[str], added: set[str]) -> Iterator[str]:
    functions: dict[str, list[Function]] = {}
    module = Module(Stubs(), file)
    rest: list[str] = []
    for node in ast.parse(file.text, type_comments=True).body:
        if isinstance(node, Function):
            functions.setdefault(node.name, []).append(node)
        else:
            rest += module.statement(node)
    future, rest = split_future(rest)
    yield from (*future, HEAD, *rest)  # ty reads decorators in order
    for name, nodes in functions.items():
        written = dict.fromkeys(map(_bare, nodes))
        extra = dict.fromkeys(filter(None, map(_for_containers, nodes))) if name in names else {}
        added |= {name} if extra else set()
        rows = [*extra, *written] if nodes[0].args.vararg else [*written, *extra]  # `*args` would accept everything
        yield from (f"@_overload\n{row}" if len(rows) > 1 else row for row in rows)


def _loading(text: str, file: SourceFile) -> str:
    """The module of `DataLoader`, whose items are of the class of the container, unless something else collates them.

    Raises:
        StubError: if it is declared in another form.
    """
    init = re.search(r" +def __init__\(\s+self,\s+dataset: Dataset\[_T_co\],.*?\) -> None: \.\.\.\n", text, re.DOTALL)
    given, walk = "collate_fn: _collate_fn_t | None = None", "    def __iter__(self) -> _BaseDataLoaderIter: ...\n"
    if init is None or given not in init[0] or walk not in text:
        raise StubError(f"{file.path}: declares DataLoader in a form that is not known")
    own = init[0].replace("Dataset[_T_co]", "_Exactly[_T_co]").replace(given, "collate_fn: None = None")
    other = init[0].replace("self", "self: DataLoader[Any]", 1).replace("        *,\n", "").replace("_T_co", "Any")
    other = other.replace(given, "*, collate_fn: _collate_fn_t")
    items = walk.replace("self", "self: DataLoader[_TensorCollection]").replace(
        "_BaseDataLoaderIter", "_Iterator[_T_co]"
    )
    for was, rows in ((init[0], (own, other, init[0])), (walk, (items, walk))):
        text = text.replace(was, "".join(f"    @_overload\n{row}" for row in rows), 1)
    return text


def _bare(node: Function) -> str:
    """A function without decorators and docstring."""
    bare = copy.deepcopy(node)
    bare.decorator_list, bare.body, bare.type_comment = [], BODY, None
    if node.type_comment and "Optional" not in node.type_comment:  # torch doesn't import that name
        said = ast.parse(node.type_comment, mode="func_type")
        bare.returns = said.returns
        for argument, annotation in zip(bare.args.args, said.argtypes, strict=False):
            argument.annotation = annotation
    return ast.unparse(bare).replace(":\n    ...", ": ...")


def _for_containers(node: Function) -> str | None:
    """The same function for containers; None if it accepts or returns other types."""
    node = copy.deepcopy(node)
    if ast.unparse(node.args) == "*tensors" and node.returns is None:
        return f"def {node.name}(tensor: _Batch, /) -> _Batch: ..."
    returned = RESULTS.get(ast.unparse(node.returns) if node.returns else "")
    parameters = {a.arg: a for a in [*node.args.args, *node.args.kwonlyargs] if a.annotation is not None}
    subject = next((name for name in SUBJECTS if name in parameters), None)
    if returned is None or subject is None:
        return None
    types = {subject: SUBJECTS[subject], "out": "_Batch | None"}
    other = parameters["other"].annotation if "other" in parameters else None
    if other is not None:
        types["other"] = f"{ast.unparse(other)} | _Batch"
    for name in types.keys() & parameters.keys():
        parameters[name].annotation = ast.Name(types[name])
    node.returns = ast.Name(returned)
    return _bare(node)
