"""The sizes of named dims in one instance: bound field by field, each with the field that determined it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import NamedTuple

from ..errors import Problem
from ._grammar import AnyDim, Dim, Dims, Variadic
from ._polynomial import Polynomial


class _Equation(NamedTuple):
    """A size with several unknown names, checked when they are known."""

    path: str
    declared: str
    given: str
    size: Polynomial
    text: str
    actual: int


class _Elements(NamedTuple):
    """A field whose first dim has a different size in each element."""

    path: str
    declared: str
    name: str
    batch: tuple[int, ...]
    sizes: Sequence[int] | Callable[[], Sequence[int] | None]
    """The sizes in batch order, or a function that returns them; None if they can't be known."""

    def read(self) -> Sequence[int] | None:
        """The sizes in batch order."""
        return self.sizes() if callable(self.sizes) else self.sizes


class Bindings:
    """Binds the dims of several fields in turn, and reports sizes that disagree: equal names have equal sizes.

    A linear size with one unknown is solved; a size with more unknowns is checked when they are known.

    >>> from tensorclass._dims import parse_dims
    >>> bindings = Bindings()
    >>> bindings.bind("image", parse_dims("3 h w"), (3, 8, 8))
    []
    >>> print(bindings.bind("mask", parse_dims("h w"), (8, 7))[0].hint)
    event dim 1 is `w`: `w` is 8 (bound by `image`), here 7
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.variadics: dict[str, tuple[int, ...]] = {}
        self.origin: dict[str, str] = {}
        self._waiting: list[_Equation] = []
        self._elements: list[_Elements] = []

    def bind_elements(
        self,
        path: str,
        dims: Dims,
        batch: Sequence[int],
        sizes: Sequence[int] | Callable[[], Sequence[int] | None],
        declared: str = "",
    ) -> None:
        """Bind the first dim of a field, which has a different size in each element; `finish` compares the sizes.

        Args:
            path: The field, for messages.
            dims: The declared dims.
            batch: The shape of the batch.
            sizes: The sizes in batch order, or a function that returns them, which is called if another field has the
                same name. It may return None if they can't be known.
            declared: The declaration in messages.
        """
        first = dims.tokens[0]
        if isinstance(first, Dim):
            self._elements.append(_Elements(path, declared or f'"{dims}"', first.text, tuple(batch), sizes))

    def bind(
        self, path: str, dims: Dims, shape: Sequence[int], *, batch_dims: int = 0, declared: str = "", given: str = ""
    ) -> list[Problem]:
        """Bind the dims of one field; a field that does not fit binds nothing.

        Args:
            path: The field, for messages.
            dims: The declared dims.
            shape: Its event shape.
            batch_dims: How many dims come before the event shape, for hints.
            declared: The declaration in messages; the dims by default.
            given: The value in messages; its shape by default.
        """
        declared, given = declared or f'"{dims}"', given or f"shape {list(shape)}"
        if len(shape) < dims.min_rank or (dims.rank is not None and len(shape) > dims.rank):
            count = f"{dims.min_rank}" + (" or more" if dims.rank is None else "")
            return [Problem(path, declared, given, f"{count} event dims are declared, {len(shape)} given")]
        before = self.sizes.copy(), self.variadics.copy(), self.origin.copy(), self._waiting.copy()
        hints = self._bind_tokens(path, dims, tuple(shape), declared, given)
        if not hints:
            return []
        self.sizes, self.variadics, self.origin, self._waiting = before
        order = self._permutation(dims, tuple(shape))
        if order is not None:
            full = (*range(batch_dims), *(batch_dims + i for i in order))
            hints.append(f"it looks like the dims are permuted: `.permute{full}` would fit")
        return [Problem(path, declared, given, "\n".join(hints))]

    def _permutation(self, dims: Dims, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The order of dims, for `Tensor.permute`, in which a shape would fit; None if there is none."""
        trial = Bindings()
        for order in permutations(range(len(shape))) if dims.rank is not None and 2 <= len(shape) <= 6 else ():
            trial.sizes, trial.origin = self.sizes.copy(), self.origin.copy()
            if not trial._bind_tokens("", dims, tuple(shape[i] for i in order), "", ""):
                return order
        return None

    def finish(self) -> list[Problem]:
        """Check the sizes that waited for other fields. Sizes that are still unknown pass."""
        problems = []
        progress = True
        while progress and self._waiting:
            waiting, self._waiting = self._waiting, []
            for equation in waiting:
                hint = self._solve(equation)
                if hint:
                    problems.append(Problem(equation.path, equation.declared, equation.given, hint))
            progress = len(self._waiting) < len(waiting)
        return problems or self._finish_elements()

    def _finish_elements(self) -> list[Problem]:
        """Sizes with the same name that differ in some element."""
        problems = []
        known: dict[str, tuple[_Elements, Sequence[int]]] = {}
        for name in dict.fromkeys(field.name for field in self._elements):
            fields = [field for field in self._elements if field.name == name]
            waited = any(name in equation.size.names for equation in self._waiting)
            if len(fields) == 1 and name not in self.sizes and not waited:
                continue
            told = [(field, field.read()) for field in fields]
            read = [(field, sizes) for field, sizes in told if sizes is not None]
            if not read:
                continue
            known[name] = first, sizes = read[0]
            if name in self.sizes:
                same, source = [self.sizes[name]] * len(sizes), f"`{self.origin[name]}`"
                problems += [_differing(field, found, same, source) for field, found in read if list(found) != same]
            else:
                others = [(field, found) for field, found in read[1:] if list(found) != list(sizes)]
                problems += [_differing(field, found, sizes, f"`{first.path}`") for field, found in others]
        return problems or self._finish_equations({n: pair for n, pair in known.items() if n not in self.sizes})

    def _finish_equations(self, known: dict[str, tuple[_Elements, Sequence[int]]]) -> list[Problem]:
        """Check waiting sizes with a name that has a different size in each element, for every element."""
        elements = list(zip(*[sizes for _, sizes in known.values()], strict=True))
        for sizes in dict.fromkeys(elements):
            inner = Bindings()
            inner.sizes = {**self.sizes, **dict(zip(known, sizes, strict=True))}
            inner.origin = {**self.origin, **{name: field.path for name, (field, _) in known.items()}}
            inner._waiting = list(self._waiting)
            problems = inner.finish()
            if problems:
                where = _place(next(iter(known.values()))[0].batch, elements.index(sizes))
                return [problem._replace(hint=f"in element {where}: {problem.hint}") for problem in problems]
            self.sizes.update((name, size) for name, size in inner.sizes.items() if name not in known)
            self.origin.update((name, path) for name, path in inner.origin.items() if name not in known)
        return []

    def _bind_tokens(self, path: str, dims: Dims, shape: tuple[int, ...], declared: str, given: str) -> list[str]:
        hints = []
        for token, start, stop in align(dims, len(shape)):
            if isinstance(token, Variadic):
                hint = self._bind_variadic(path, token, shape[start:stop])
            elif isinstance(token, Dim):
                hint = self._solve(_Equation(path, declared, given, token.size, token.text, shape[start]))
            else:
                hint = ""
            if hint:
                hints.append(f"event dim {start} is `{token}`: {hint}")
        return hints

    def _bind_variadic(self, path: str, token: Variadic, sizes: tuple[int, ...]) -> str:
        """Bind several dims to a name; the problem if it has other sizes, else an empty text."""
        if token.name is None:
            return ""
        known = self.variadics.setdefault(token.name, sizes)
        self.origin.setdefault(f"*{token.name}", path)
        if known == sizes:
            return ""
        return f"`{token}` is {list(known)} (bound by `{self.origin[str(token)]}`), here {list(sizes)}"

    def _solve(self, equation: _Equation) -> str:
        """Check a size, or solve it for its only unknown; returns the text of an error, or ''."""
        try:
            size, solution = equation.size.value(self.sizes), None
            if size is None:  # the known sizes may leave too little for a solution
                left = equation.size.substitute(self.sizes)
                size, solution = left.constant, left.linear()
        except ZeroDivisionError:
            return f"`{equation.text}` divides by zero{self._known(equation.size)}"
        if size is not None:
            return self._compare(equation, size)
        if solution is None:
            self._waiting.append(equation)
            return ""
        name, slope, rest = solution
        value = (equation.actual - rest) // slope
        if value * slope + rest != equation.actual or value < 0:
            return f"no size `{name}` makes `{equation.text}` {equation.actual}{self._known(equation.size)}"
        self.sizes[name] = value
        self.origin[name] = equation.path
        return ""

    def _compare(self, equation: _Equation, size: int) -> str:
        if size == equation.actual:
            return ""
        if not equation.size.names:
            return f"{size} is declared, here {equation.actual}"
        if equation.size == Polynomial.of(equation.text):
            return f"`{equation.text}` is {size} (bound by `{self.origin[equation.text]}`), here {equation.actual}"
        return f"`{equation.text}` is {size}{self._known(equation.size)}, here {equation.actual}"

    def _known(self, size: Polynomial) -> str:
        """The fields that bound the names of a size."""
        known = [f"`{n}` is {self.sizes[n]}, bound by `{self.origin[n]}`" for n in size.names if n in self.sizes]
        return f" ({'; '.join(known)})" if known else ""


def _differing(field: _Elements, found: Sequence[int], expected: Sequence[int], source: str) -> Problem:
    """The problem of the first element whose size differs from that of another field."""
    wrong = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b]
    where = _place(field.batch, wrong[0])
    more = f"; {len(wrong) - 1} more differ" if len(wrong) > 1 else ""
    hint = (
        f"`{field.name}` is {expected[wrong[0]]} in element {where} (bound by {source}), here {found[wrong[0]]}; dims "
        f"of one name agree in every element{more}"
    )
    return Problem(f"{field.path}{where}", field.declared, f"{found[wrong[0]]} entries", hint)


def _place(batch: Sequence[int], position: int) -> str:
    """An element of a batch by its position: `[0][2]`."""
    parts = []
    for size in reversed(batch):
        position, part = divmod(position, size)
        parts.append(f"[{part}]")
    return "".join(reversed(parts)) or "[]"


def align(dims: Dims, rank: int) -> list[tuple[Dim | AnyDim | Variadic, int, int]]:
    """Each token with the positions `[start, stop)` that it covers in a shape of a fitting rank."""
    spare = rank - dims.min_rank
    found, start = [], 0
    for token in dims.tokens:
        stop = start + (spare if isinstance(token, Variadic) else 1)
        found.append((token, start, stop))
        start = stop
    return found
