"""The sizes of dim names within one instance: bound field by field, each remembered with the field that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from ..errors import Problem
from ._grammar import AnyDim, Dim, Dims, Variadic
from ._polynomial import Polynomial


class _Equation(NamedTuple):
    """A size with several unknowns, checked when they are known."""

    path: str
    declared: str
    given: str
    size: Polynomial
    text: str
    actual: int


class Bindings:
    """Equal names are equal sizes: binds the dims of several fields in turn and reports what does not agree.

    One unknown of a linear size is solved; a size with more unknowns waits until they are known.

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

    def bind(
        self,
        path: str,
        dims: Dims,
        shape: Sequence[int],
        *,
        batch_dims: int = 0,
        declared: str = "",
        given: str = "",
    ) -> list[Problem]:
        """Bind the dims of one field; a field that does not fit binds nothing.

        Args:
            path: The field, for messages.
            dims: What the field declares.
            shape: Its event shape.
            batch_dims: How many dims come before the event shape, for hints.
            declared: How messages name the declaration; the dims by default.
            given: How messages name the value; its shape by default.
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
        order = permutation(dims, tuple(shape), self.sizes)
        if order is not None:
            full = (*range(batch_dims), *(batch_dims + i for i in order))
            hints.append(f"it looks like the dims are permuted: `.permute{full}` would fit")
        return [Problem(path, declared, given, "\n".join(hints))]

    def finish(self) -> list[Problem]:
        """The sizes that waited for other fields and do not agree with them; what is still unknown is let pass."""
        problems = []
        progress = True
        while progress and self._waiting:
            waiting, self._waiting = self._waiting, []
            for equation in waiting:
                hint = self._solve(equation)
                if hint:
                    problems.append(Problem(equation.path, equation.declared, equation.given, hint))
            progress = len(self._waiting) < len(waiting)
        return problems

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
        if token.name is None:
            return ""
        known = self.variadics.setdefault(token.name, sizes)
        self.origin.setdefault(f"*{token.name}", path)
        if known == sizes:
            return ""
        return f"`{token}` is {list(known)} (bound by `{self.origin[str(token)]}`), here {list(sizes)}"

    def _solve(self, equation: _Equation) -> str:
        """Check a size or solve it for its one unknown; the text of what is wrong, or ''."""
        try:
            size = equation.size.value(self.sizes)
            solution = equation.size.linear(self.sizes) if size is None else None
            if size is None and solution is None:  # sizes that are known may leave less than they promise
                left = equation.size.substitute(self.sizes)
                size, solution = left.constant, left.linear({})
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
        """Where the names of a size were bound."""
        known = [f"`{n}` is {self.sizes[n]}, bound by `{self.origin[n]}`" for n in size.names if n in self.sizes]
        return f" ({'; '.join(known)})" if known else ""


def align(dims: Dims, rank: int) -> list[tuple[Dim | AnyDim | Variadic, int, int]]:
    """Each token with the positions `[start, stop)` that it covers in a shape of a fitting rank."""
    spare = rank - dims.min_rank
    found, start = [], 0
    for token in dims.tokens:
        stop = start + (spare if isinstance(token, Variadic) else 1)
        found.append((token, start, stop))
        start = stop
    return found


def permutation(dims: Dims, shape: tuple[int, ...], sizes: dict[str, int]) -> tuple[int, ...] | None:
    """The order of dims in which a shape would fit, as `Tensor.permute` takes it; None without one."""
    if dims.rank != len(shape) or not 2 <= len(shape) <= 6 or _fits(dims, shape, sizes):
        return None
    orders = permutations(range(len(shape)))
    return next((order for order in orders if _fits(dims, tuple(shape[i] for i in order), sizes)), None)


def _fits(dims: Dims, shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    known = [token.size.substitute(sizes).constant if isinstance(token, Dim) else None for token in dims.tokens]
    return all(size is None or size == given for size, given in zip(known, shape, strict=True))
