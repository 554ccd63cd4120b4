"""Every public name has an example in its docstring, which tests/test_docs.py runs, or names another one that has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from tensorclass import DatasetWriter, RaggedTensor, Schema, TensorClass, TensorClassDataset, errors
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tests.test_site import ROOMS, hooks

MODULES = (*ROOMS, "tensorclass.nn.functional_modules", "tensorclass.functional", "tensorclass.utils")
MAIN = (TensorClass, RaggedTensor, Schema, TensorClassDataset, DatasetWriter, TensorClassModule, TensorClassSequential)
"""Besides the classes that every container has its methods from."""

OF_TORCH = "an alias of torch or the standard library, which documents it"
A_VALUE = "a value or an alias of a type: it has no docstring"
TWO_RANKS = "needs a second process; docs/scaling.md has the program"
HALF_DONE = "torch can't cast to this dtype on every device, so that an example would show its error"
NEEDS_PACKAGE = "needs a package that no extra installs; docs/exchange.md has the program"
EXCEPTIONS = {
    "Buffer": OF_TORCH,
    "logger": OF_TORCH,
    **dict.fromkeys(["DeviceType", "IndexType", "KEY_SEPARATOR", "Shared", "CODES"], A_VALUE),
    **dict.fromkeys(["send", "recv", "isend", "irecv", "gather_and_stack"], TWO_RANKS),
    **dict.fromkeys(["init_remote", "from_remote_init"], TWO_RANKS),
    **dict.fromkeys(["complex32", "qint8", "qint32", "quint8", "quint4x2"], HALF_DONE),
    "to_mds": NEEDS_PACKAGE,
}
"""Name -> why it has no example. Errors without arguments of their own are left out too: other examples raise them."""


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _doc(value: Any) -> str:
    """What is documented here: not the docstring that a value has from its type."""
    text = "" if isinstance(value, str | int | float | tuple | dict) else inspect.getdoc(_function(value))
    return text or ""


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(cls).items():
        inherited = any(name in vars(base) for base in cls.__mro__[1:])
        if not name.startswith("_") and not inherited and (callable(_function(value)) or isinstance(value, property)):
            yield name, value


@cache
def documented() -> dict[str, list[str]]:
    """Public name -> its docstrings; a method is what its class calls it, and may be in several."""
    found: dict[str, list[str]] = {}
    for room in MODULES:
        for name, value in hooks().public(room).items():
            plain = getattr(value, "__module__", "") == "tensorclass.errors" and "__init__" not in vars(value)
            if (not plain or value is errors.TensorClassError) and type(value).__module__ != "__future__":
                found.setdefault(name, []).append(_doc(value))
    paths = [path.rpartition(".") for topic in hooks().TOPICS.values() for path in topic.methods]
    for cls in (*(getattr(import_module(module), name) for module, _, name in paths), *MAIN):
        used = re.findall(r"\.(\w+)", "\n".join(re.findall(r"^(?:>>>|\.\.\.).*", _doc(cls), re.M)))
        for name, value in _methods(cls):
            found.setdefault(name, []).append(_doc(value) + (f"\n>>> .{name}" if name in used else ""))
    return found


def shows(text: str, known: dict[str, list[str]]) -> bool:
    """Whether a docstring has an example, or its first paragraph names what has one: `see`, `another name of`."""
    if ">>>" in text:
        return True
    others = re.findall(r"`(?:\w+\.)*(\w+)(?:\([^`]*\))?`", text.partition("\n\n")[0])
    return any(">>>" in other for name in others for other in known.get(name, ()))


def test_names_have_examples():
    """A reader of `help(name)` sees how it is used, or which name to look at."""
    known = documented()
    missing = {name for name, texts in known.items() if not all(shows(text, known) for text in texts)}
    assert missing == EXCEPTIONS.keys()


def test_most_names_have_their_own():
    """Sending the reader on is for other spellings, not a way around."""
    texts = [text for docs in documented().values() for text in docs]
    assert len(texts) > 600
    assert sum(">>>" in text for text in texts) > 0.9 * len(texts)


def test_examples_are_found():
    """An example, and a first sentence that names one; not any other text."""
    known = {"a": ["One.\n\n>>> a()"], "b": ["Two."]}
    assert shows("One.\n\n>>> a()", known)
    assert shows("Another name of `a`.", known)
    assert shows("The same; see `tensorclass.a`.", known)
    assert not shows("See `b`.", known)
    assert not shows("Two.\n\nArgs:\n    a: as for `a`.", known)
