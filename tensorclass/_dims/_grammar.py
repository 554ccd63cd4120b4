"""The dims of an event shape: the text in `Float32[Tensor, "3 h w//2"]` as an immutable object, without torch."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from unicodedata import normalize

from ..errors import DimSyntaxError
from ._identifiers import why_no_name
from ._polynomial import Polynomial

MOST_DIVISIONS = 50
GRAMMAR = (
    "dims are separated by spaces; each is a number (`3`), a name (`h`), an expression of both with + - * // "
    "(`h//2`, `2*(h+1)`), `_` (any size), `...` or `*name` (any number of dims, once)"
)
_TERMS = 200  # products of sums grow exponentially, and the text may come from a file

_ODD = {
    ",": "write spaces, not commas, between dims",
    "#": "broadcasting (`#`) is not part of the grammar; write `_` for any size",
    "?": "`?` is not part of the grammar",
    "=": "write only the size or only the name",
    "{": "expressions take dim names, not variables",
    "%": "the operators are + - * //",
}


@dataclass(frozen=True)
class Dim:
    """One dim of a size."""

    size: Polynomial
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class AnyDim:
    """One dim of any size: `_`."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Variadic:
    """Any number of dims: `...`; or `*name`, if they are equal wherever the name is used."""

    name: str | None = None

    def __str__(self) -> str:
        return f"*{self.name}" if self.name else "..."


Token = Dim | AnyDim | Variadic


@dataclass(frozen=True)
class Dims:
    """The parsed dims of an event shape; equal when every dim has the same normal form.

    >>> dims = parse_dims("3 h w//2")
    >>> str(dims), dims.rank, dims.literal, dims.names
    ('3 h w//2', 3, None, ('h', 'w'))
    """

    tokens: tuple[Token, ...]
    variadic: int | None = field(init=False, repr=False, compare=False)
    """The position of `...` or `*name`; None without one."""
    min_rank: int = field(init=False, repr=False, compare=False)
    """The least number of dims."""
    rank: int | None = field(init=False, repr=False, compare=False)
    """The number of dims; None with `...` or `*name`."""
    literal: tuple[int, ...] | None = field(init=False, repr=False, compare=False)
    """The sizes, when all of them are numbers; else None."""
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names of sizes, in order, without `*name`."""

    def __post_init__(self) -> None:  # computed at once: torch.compile can't trace a cache that is filled later
        sizes = [token.size for token in self.tokens if isinstance(token, Dim)]
        known = [size.constant for size in sizes if size.constant is not None]
        variadic = next((i for i, token in enumerate(self.tokens) if isinstance(token, Variadic)), None)
        names = tuple(dict.fromkeys(name for size in sizes for name in size.names))
        object.__setattr__(self, "variadic", variadic)
        object.__setattr__(self, "min_rank", len(self.tokens) - (variadic is not None))
        object.__setattr__(self, "rank", len(self.tokens) if variadic is None else None)
        object.__setattr__(self, "literal", tuple(known) if len(known) == len(self.tokens) else None)
        object.__setattr__(self, "names", names)

    @property
    def canonical(self) -> str:
        """The normal form as text: the same for equal dims."""
        return " ".join(
            str(token.size).replace(" ", "") if isinstance(token, Dim) else str(token) for token in self.tokens
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def __str__(self) -> str:
        return " ".join(map(str, self.tokens))


@lru_cache(maxsize=4096)
def parse_dims(text: str) -> Dims:
    """Parse the text of a declaration to dims.

    Args:
        text: Dims separated by spaces; "" is the shape of a scalar.

    Raises:
        DimSyntaxError: if a dim is outside the grammar.

    >>> parse_dims("n 2*n").tokens[1].size.evaluate({"n": 4})
    8
    """
    if not isinstance(text, str):
        raise DimSyntaxError(
            f'a shape is a string such as "3 h w", got {text!r} of type {type(text).__name__}; {GRAMMAR}'
        )
    tokens = tuple(_parse_token(word, position, text) for position, word in enumerate(text.split(), 1))
    if sum(isinstance(token, Variadic) for token in tokens) > 1:
        raise DimSyntaxError(f'"{text}": only one of `...` and `*name` may be in a shape, else their lengths are open')
    return Dims(tokens)


def _parse_token(word: str, position: int, text: str) -> Token:
    """One dim; the error names its position, and says what to write."""
    if word == "...":
        return Variadic()
    if re.fullmatch(r"_\w*", word):
        return AnyDim()  # jaxtyping also spells it `_name`
    try:
        if word.startswith("*") and word[1:].isidentifier() and not word.startswith("*_"):
            return Variadic(_dim_name(word[1:]))
        if word.count("//") > MOST_DIVISIONS:  # each contains the one before
            raise ValueError(f"it has more than {MOST_DIVISIONS} divisions")
        size = _parse_expression(word)
    except (ValueError, SyntaxError, RecursionError, MemoryError, ZeroDivisionError) as error:
        hint = next((hint for sign, hint in _ODD.items() if sign in word), _reason(error))
        raise DimSyntaxError(f'dim {position} of "{text}" is `{word}`: {hint}; {GRAMMAR}') from None
    return Dim(size, word if size.constant is None else str(size))


def _reason(error: Exception) -> str:
    return str(error) if type(error) in (ValueError, ZeroDivisionError) else "this is not a dim"


def _parse_expression(word: str) -> Polynomial:
    # Python's own parser keeps precedence and nesting; the characters are limited first.
    if not re.fullmatch(r"[\w+\-*/()]+", word):
        raise ValueError("this is not a dim")
    if not word.isascii() and normalize("NFKC", word) != word:  # Python's parser would use the normalized name
        raise ValueError(f"Python reads it as `{normalize('NFKC', word)}`, which is another text: write that one")
    size = _polynomial(ast.parse(word, mode="eval").body)
    if size.constant is not None and size.constant < 0:
        raise ValueError("a size is 0 or more; write `_` for any size")
    return size


def _dim_name(name: str) -> str:
    reason = why_no_name(name)
    if reason:
        raise ValueError(reason)
    return name


def _polynomial(node: ast.expr) -> Polynomial:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Polynomial.of(node.value)
    if isinstance(node, ast.Name):
        return Polynomial.of(_dim_name(node.id))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_polynomial(node.operand)
    if isinstance(node, ast.BinOp):
        return _operate(node.op, _polynomial(node.left), _polynomial(node.right))
    raise ValueError("this is not a dim")


def _operate(operator: ast.operator, left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left.terms) * len(right.terms) > _TERMS:
        raise ValueError("this expression is too long")
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.FloorDiv):
        return left // right
    raise ValueError("the operators are + - * //")
