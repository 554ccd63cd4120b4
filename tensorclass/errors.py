"""All errors of the package. A message names the given value, the expected value and the fix.

Each error is also a builtin error, the one that `tensordict` raises in the same place: `except` clauses of its programs
keep working. tests/test_except_clauses.py compares both libraries, call by call.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import FrozenInstanceError
from difflib import SequenceMatcher
from errno import EFBIG
from importlib import metadata
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, NoReturn

from typing_extensions import Self

__all__ = [
    "ArgumentError", "BatchDimError", "BatchIndexError", "BatchSizeError", "BuildError", "CastError",
    "ChecksumError", "DimSyntaxError", "FieldNotProducedError", "FileFormatError", "FrozenError", "InvalidKeyError",
    "KeySetError", "KeyThroughLeafError", "LockedError", "MemoryBudgetError", "MissingExtraError", "MissingKeyError",
    "ModuleError", "Problem", "SchemaError", "StructureError", "TensorClassError", "UnknownFieldError",
    "UnsupportedOperationError", "did_you_mean", "nearest",
]  # fmt: skip

_ALIKE = 0.6  # the ratio above which difflib itself calls words close
_LISTED = 40  # the most names in a message
_PROBLEMS = 20  # the most problems in a message
_LONGEST = 8000  # the longest message, in characters
_LONGEST_ROW = 1000  # the longest row of a problem, in characters
_LONGEST_NAME = 100  # the longest name for which the nearest one is searched


def bounded(text: str, limit: int = _LONGEST) -> str:
    """A text for a message; of a very long text, the beginning and the end.

    >>> bounded("a" * 500, 8)
    'aaaaaa ... (492 characters left out) ... aa'
    """
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} ... ({len(text) - limit} characters left out) ... {text[-tail:]}"


def printable(text: str, keep: str = "") -> str:
    """A text from elsewhere, safe to print: control characters and other invisible ones are written as escapes.

    Args:
        text: the text: a key, a path, a line.
        keep: characters that stay, such as line breaks in a message.

    >>> print(printable("a" + chr(27) + "[2Jb" + chr(10)))
    a\\x1b[2Jb\\n
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text])


def shown(value: object) -> str:
    """The repr of a given value, for a message.

    >>> shown("a" * 500)[-20:]
    "aaaaaaaaaaaaaaaaaaa'"
    """
    return bounded(repr(value), 200)


def few(texts: Sequence[object], more: str = "", between: str = "\n") -> str:
    """The first of many findings, and the number of others.

    >>> few([str(n) for n in range(30)], between=" ")
    '0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ... and 10 more'
    """
    left = len(texts) - _PROBLEMS
    return between.join([*map(str, texts[:_PROBLEMS]), *([f"... and {left} more{more}"] if left > 0 else [])])


class Problem(NamedTuple):
    """One finding of a check: the field path, the declared type, the given value, and a hint.

    >>> print(Problem("label", 'Int64[""]', "float32 [32]", "convert with `.to(torch.int64)`"))
    label
      declared: Int64[""]
      given:    float32 [32]
      hint:     convert with `.to(torch.int64)`
    """

    path: str
    declared: str
    given: str
    hint: str = ""

    def __str__(self) -> str:
        rows = (("declared: ", self.declared), ("given:    ", self.given), ("hint:     ", self.hint))
        return "\n".join(
            [printable(bounded(self.path, 200)), *(f"  {title}{_indent(text)}" for title, text in rows if text)]
        )


def _indent(text: str) -> str:
    return bounded(text, _LONGEST_ROW).replace("\n", "\n" + " " * 12)


class Later:
    """A message that is built when it is read, so that an error that is caught and dropped is cheap."""

    __slots__ = ("_given", "_tell")

    def __init__(self, tell: Callable[..., str], *given: Any) -> None:
        self._tell = tell
        self._given = given

    def __str__(self) -> str:
        return self._tell(*self._given)

    def __repr__(self) -> str:
        return repr(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class TensorClassError(Exception):
    """The base class of every error that this library raises on purpose; its message is never very long.

    >>> from tensorclass import TensorDict
    >>> from tensorclass.errors import TensorClassError
    >>> try:
    ...     TensorDict(image=1)["imgae"]
    ... except TensorClassError as error:
    ...     type(error).__name__
    'MissingKeyError'
    """

    def __str__(self) -> str:
        # KeyError prints the repr of its message, which would escape quotes and line breaks.
        return printable(bounded(str(self.args[0]) if len(self.args) == 1 else super().__str__()), "\n\t")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})" if self.args else super().__repr__()


class SchemaError(TensorClassError, ValueError, TypeError, RuntimeError):
    """An invalid declaration, or data that doesn't fit its declaration; `problems` lists every finding.

    Args:
        message: The whole text; `SchemaError.of` makes it from the problems.
        problems: The findings, in field order.
        cls_name: The class whose declaration the data doesn't fit.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Int64
    >>> class Row(TensorClass):
    ...     label: Int64[Tensor, ""]
    >>> try:
    ...     Row(label=torch.zeros(3))
    ... except SchemaError as error:
    ...     [(problem.path, problem.given) for problem in error.problems]
    [('label', 'float32 [3]')]
    """

    def __init__(self, message: str = "", problems: Iterable[Problem] = (), cls_name: str = "") -> None:
        super().__init__(message)
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.cls_name = cls_name

    @classmethod
    def of(cls, cls_name: str, problems: Iterable[Problem]) -> Self:
        """Make the error from problems, with a block for each; of very many, only the first.

        Args:
            cls_name: The class whose declaration the data doesn't fit.
            problems: The findings; at least one.

        >>> print(SchemaError.of("Digits", [Problem("label", 'Int64[""]', "nothing", "pass `label=`")]))
        Digits: 1 problem
        label
          declared: Int64[""]
          given:    nothing
          hint:     pass `label=`
        """
        found = tuple(problems)
        count = f"{len(found)} problem" + ("s" if len(found) != 1 else "")
        return cls(f"{cls_name}: {count}\n{few(found, '; `error.problems` has all of them')}", found, cls_name)


class DimSyntaxError(TensorClassError, ValueError):
    """A shape text that is outside the grammar of dims."""


class FieldNotProducedError(TensorClassError, AttributeError):
    """A produced field was read before a module wrote it."""


class UnknownFieldError(TensorClassError, AttributeError):
    """A field that the class does not declare, or an attribute that an object lacks."""


class MissingKeyError(TensorClassError, KeyError):
    """A key that the container does not hold."""

    undeclared: ClassVar[bool] = False
    """Whether no instance of the class can hold the key, so that only an explicit default is returned."""
    key: str = ""
    """The key, if the error is about one of several given keys."""


class InvalidKeyError(TensorClassError, KeyError, TypeError, RuntimeError):
    """A key that is neither a string, a tuple of strings nor a field reference."""


class KeyThroughLeafError(TensorClassError, KeyError, TypeError, ValueError):
    """A nested key whose first part is a tensor or a value, which has no keys."""


class LockedError(TensorClassError, RuntimeError):
    """A structural write to a locked container."""


class FrozenError(LockedError, FrozenInstanceError):
    """Any write to an instance of a frozen class."""


class BatchSizeError(TensorClassError, RuntimeError, ValueError, TypeError):
    """A tensor, container or batch size that does not fit the batch dims."""


class BatchIndexError(TensorClassError, IndexError, RuntimeError):
    """An index that doesn't fit the batch dims, or is outside a sequence."""


class BatchDimError(TensorClassError, IndexError, RuntimeError, ValueError):
    """A dim argument outside the batch dims."""


class StructureError(TensorClassError, RuntimeError, ValueError):
    """Operands that differ in keys, classes or shapes."""


class KeySetError(StructureError, KeyError):
    """Operands that differ in keys, or keys that would collide."""


class ArgumentError(StructureError, TypeError):
    """An argument of the wrong kind or value, or arguments that exclude each other."""


class CastError(TensorClassError, TypeError):
    """A cast that would break a declared dtype."""


class ModuleError(TensorClassError, RuntimeError, ValueError, TypeError):
    """A keyed module whose keys, arguments or outputs don't fit."""


class WorkerError(TensorClassError, RuntimeError):
    """Another process died, or didn't answer in time; names its task."""


class UnsupportedOperationError(TensorClassError, TypeError, NotImplementedError):
    """An operation that this container doesn't support, on purpose."""


class BuildError(TensorClassError, TypeError, ValueError):
    """A pipeline that the build check rejects.

    Args:
        message: The findings as text.
        diagnostics: The findings as records, including notes.

    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.nn import TensorClassModule, TensorClassSequential
    >>> from tensorclass.typing import Float32
    >>> class In(TensorClass):
    ...     x: Float32[Tensor, "3"]
    >>> class Out(TensorClass):
    ...     y: Float32[Tensor, "4"]
    >>> try:
    ...     TensorClassSequential(TensorClassModule(nn.Linear(3, 5), In.x, Out.y), input=In, output=Out)
    ... except BuildError as error:
    ...     [finding.code for finding in error.diagnostics]
    ['E114']
    """

    def __init__(self, message: str = "", diagnostics: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.diagnostics: tuple[Any, ...] = tuple(diagnostics)


class FileFormatError(TensorClassError, RuntimeError, ValueError):
    """A file that is damaged, has another format, or a version that this library can't read.

    Args:
        message: What is wrong.
        path: The file.
        offset: The position of the fault in the file in bytes, if known.
        field: The affected entry, if there is one.

    >>> print(FileFormatError("its header is cut off", "digits.safetensors", 8))
    digits.safetensors: its header is cut off (at byte 8)
    """

    def __init__(
        self, message: str = "", path: Any = None, offset: int | None = None, field: str | None = None
    ) -> None:
        self.path: str | None = None if path is None else str(path)
        self.offset = offset
        self.field = field
        where = [f"field `{printable(field)}`"] if field is not None else []
        where += [f"at byte {offset}"] if offset is not None else []
        head = f"{printable(str(path))}: " if path is not None else ""
        super().__init__(head + message + (f" ({', '.join(where)})" if where else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return _file_error, (type(self), str(self), self.path, self.offset, self.field)


def _file_error(cls: type[FileFormatError], text: str, *facts: Any) -> FileFormatError:
    error = cls(text)
    error.path, error.offset, error.field = facts
    return error


class ChecksumError(FileFormatError):
    """A file whose bytes have changed since it was written."""


class MemoryBudgetError(FileFormatError, OSError):
    """Input that would take more memory than reading it may; nothing of that size was allocated.

    The message says what was to be read, its size and the limit. Every reader has the argument `max_bytes`.

    >>> import torch
    >>> from tensorclass import TensorDict, from_csv
    >>> TensorDict(a=torch.arange(1000), batch_size=[1000]).to_csv("a.csv")
    >>> try:
    ...     from_csv("a.csv", max_bytes=1000)
    ... except MemoryBudgetError as error:
    ...     "raise the limit: `max_bytes=" in str(error)
    True
    """

    errno: int | None = EFBIG

    @property
    def filename(self) -> str | None:
        """The file."""
        return self.path


class MigrationWarning(UserWarning):
    """A program does something that reaches its data in tensordict and not here; see `migration_warnings`."""


class MissingExtraError(TensorClassError, ImportError):
    """An optional package that is not installed."""

    @classmethod
    def of(cls, feature: str, package: str, extra: str) -> Self:
        """Make the error that names the extra to install.

        Args:
            feature: The feature, as the start of a sentence.
            package: The package that is missing.
            extra: The extra of this library that installs it.

        >>> print(MissingExtraError.of("An HDF5 file", "h5py", "hdf5"))
        An HDF5 file needs `h5py`, which is not installed: pip install 'tensorclass[hdf5]'
        """
        return cls(f"{feature} needs `{package}`, which is not installed: pip install 'tensorclass[{extra}]'")


def add_note(error: Any, text: str) -> None:
    """Add a line below the message of an error, as `error.add_note(text)` of Python 3.11 does.

    Tracebacks of Python 3.10 show no notes. There the text becomes part of the message, where that is possible.
    """
    if text in getattr(error, "__notes__", ()):
        return
    if sys.version_info >= (3, 11) or not extend_message(error, text):
        error.__notes__ = [*getattr(error, "__notes__", ()), text]


def extend_message(error: BaseException, text: str) -> bool:
    """Append a line to the message of an error; False if its class prints anything but its first argument."""
    message = error.args[0] if error.args else ""
    plain = type(error).__str__ in (Exception.__str__, TensorClassError.__str__)
    if not plain or not isinstance(message, str):
        return False
    error.args = (f"{message}\n{text}" if message else text, *error.args[1:])
    return True


class HeldError:
    """An error that is raised later than it was caught, and as often as needed.

    A traceback holds the variables of its functions. A variable that holds the error of its own traceback is a cycle,
    which keeps a batch alive until the garbage collector runs. Whoever raises a `HeldError` holds no traceback.
    """

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException = error

    def reraise(self) -> NoReturn:
        """Raise the error with its traceback; the next call raises a copy."""
        error = self.error
        self.release()
        try:
            raise error
        finally:
            del error

    def release(self) -> None:
        """Let the traceback go; the class and the message stay."""
        self.error = _copy_error(self.error)


def _copy_error(error: BaseException) -> BaseException:
    """A copy without traceback and causes, which some packages make errors copy and pickle: Dask does, by tblib."""
    try:
        found = copy.copy(error).with_traceback(None)
        found.__cause__ = found.__context__ = None
        return found
    except Exception:  # the constructor of the user's class may raise anything
        return TensorClassError(f"{type(error).__name__}: {error}")


def nearest(name: str, candidates: Iterable[str], alike: float = _ALIKE) -> str | None:
    """The candidate most similar to a misspelled name; None if none has a similarity of at least `alike`.

    >>> nearest("lable", ["image", "label"])
    'label'
    """

    if len(name) > _LONGEST_NAME:
        return None
    wanted, best, found = name.lower(), (alike, False), None
    matcher = SequenceMatcher(None, wanted)
    for candidate in candidates:
        matcher.set_seq2(candidate.lower())
        # Two cheap upper bounds first, since there may be thousands of keys.
        if matcher.real_quick_ratio() < best[0] or matcher.quick_ratio() < best[0]:
            continue
        score = matcher.ratio(), candidate[:1] == name[:1]  # typos are rare in the first letter
        if score > best or (found is None and score[0] >= alike):
            best, found = score, candidate
    return found


def listed(names: Iterable[str]) -> str:
    """Names for a message; of very many, the first ones and their number.

    >>> listed(["b", "a"])
    "['a', 'b']"
    """
    known = sorted(names)
    if len(known) <= _LISTED:
        return bounded(str(known), 4 * _LONGEST_ROW)
    return bounded(f"[{', '.join(map(repr, known[:_LISTED]))}, ...], {len(known)} in all", 4 * _LONGEST_ROW)


def named(name: str, candidates: Iterable[str]) -> str:
    """An unknown name, and the nearest known one.

    >>> named("lable", ["image", "label"])
    '`lable`; did you mean `label`?'
    """
    return f"`{bounded(name, 200)}`{did_you_mean(name, candidates)}"


def too_deep(key: str) -> StructureError:
    """The error for a mapping or list that is recursive or too deep for Python.

    >>> print(too_deep("a"))
    the value of `a` contains itself, or is nested more deeply than Python can follow
    """
    what = f"the value of `{key}`" if key else "the mapping"
    return StructureError(f"{what} contains itself, or is nested more deeply than Python can follow")


def defined_again(old: type, new: type) -> str:
    """The hint if two classes have the same name, as after rerunning a notebook cell, which makes a new class.

    >>> class Digits: ...
    >>> Old = Digits
    >>> class Digits: ...
    >>> defined_again(Old, Digits)[:50]
    'Digits was defined again: the value is an instance'
    >>> defined_again(int, str)
    ''
    """
    if old is new or (old.__module__, old.__qualname__) != (new.__module__, new.__qualname__):
        return ""
    name = new.__name__
    return (
        f"{name} was defined again: the value is an instance of the class as it was before; convert it with "
        f"`{name}.from_tensordict(value)`, or create it again"
    )


def page_of(name: str) -> str:
    """Where a page of the documentation is: its address, which the metadata of the package has.

    >>> page_of("migrating")
    'https://.../migrating/'
    """
    try:
        links = metadata.metadata("tensorclass").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # sources that are not installed
        return f"docs/{name}.md"
    home = next((link.partition(", ")[2] for link in links if link.startswith("Documentation, ")), "docs")
    return f"{home}/{name}/"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest name, or "".

    >>> did_you_mean("lable", ["image", "label"])
    '; did you mean `label`?'
    >>> did_you_mean("pose.angle", ["image", "pose"])
    "; did you mean `('pose', 'angle')`?"
    """
    known = [*candidates]
    path = tuple(name.replace("/", ".").split("."))
    found = path if len(path) > 1 and path[0] in known else nearest(name, known)
    return f"; did you mean `{found}`?" if found is not None else ""


def program_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package, unless it has no others."""
    frames, package = [], __name__.partition(".")[0]
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    names = [one.tb_frame.f_globals.get("__name__", "") for one in frames]
    inside = [name.partition(".")[0] == package or name == "torch.nn.modules.module" for name in names]
    theirs = [one for one, hidden in zip(frames, inside, strict=True) if not hidden]
    for one in reversed(theirs or frames):
        traceback = TracebackType(traceback, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return traceback
