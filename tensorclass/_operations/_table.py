"""Every pointwise operation once, as data: kernels, generated methods, checkers and tests all read this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Family: TypeAlias = Literal["unary", "predicate", "binary", "comparison", "ternary", "clamp"]
Domain: TypeAlias = Literal["any", "positive", "unit", "nonzero", "int", "bool"]
Numbers: TypeAlias = Literal["yes", "no", "last", "together"]


@dataclass(frozen=True)
class Row:
    """One operation.

    Args:
        name: the name of the method, and of the torch function unless `torch` is given.
        family: the kind of its operands.
        doc: the first sentence of the docstring.
        torch: the function in the `torch` namespace.
        foreach: the `torch._foreach_` function without the prefix; empty if there is none.
        in_place: whether `<name>_` exists.
        forward: the operator method, such as `__add__`.
        reflected: the reflected operator method.
        augmented: the in-place operator method.
        swapped: the function in `operator` for the reflected operator, if operands don't commute.
        swap: whether the operation itself reverses its operands (`rsub`).
        result: dtype of the result: as torch promotes, floating (of integers: floating or an error), or bool.
        options: keyword arguments of the torch function.
        domain: the inputs for which the result is well defined.
        other_domain: the same for the second operand.
        numbers: which operands torch accepts as Python numbers: all, none, the last, or all if all are numbers.
        aliases: other names in torch for the same function.
    """

    name: str
    family: Family
    doc: str
    torch: str = ""
    foreach: str = ""
    in_place: bool = False
    forward: str = ""
    reflected: str = ""
    augmented: str = ""
    swapped: str = ""
    swap: bool = False
    result: Literal["promoted", "floating", "bool"] = "promoted"
    options: tuple[str, ...] = ()
    domain: Domain = "any"
    other_domain: Domain = "any"
    numbers: Numbers = "yes"
    aliases: tuple[str, ...] = ()

    @property
    def torch_name(self) -> str:
        """The name of the function in the `torch` namespace."""
        return self.torch or self.name

    @property
    def arity(self) -> int:
        """The number of operands besides the container."""
        return {"unary": 0, "predicate": 0, "binary": 1, "comparison": 1, "ternary": 2, "clamp": 2}[self.family]


def _unary(name: str, doc: str, forward: str = "", aliases: tuple[str, ...] = ()) -> Row:
    return Row(name, "unary", doc, foreach=name, in_place=True, forward=forward, aliases=aliases)


def _floating(name: str, doc: str, domain: Domain = "any", aliases: tuple[str, ...] = ()) -> Row:
    return Row(name, "unary", doc, foreach=name, in_place=True, result="floating", domain=domain, aliases=aliases)


def _predicate(name: str, doc: str) -> Row:
    return Row(name, "predicate", doc, result="bool")


def _comparison(name: str, doc: str, alias: str) -> Row:
    return Row(name, "comparison", doc, forward=f"__{name}__", result="bool", aliases=(alias,) if alias else ())


def _bitwise(name: str, word: str) -> Row:
    doc = f"Bitwise {word} of every leaf and `other`."
    forward, reflected = f"__{name}__", f"__r{name}__"
    return Row(f"bitwise_{name}", "binary", doc, forward=forward, reflected=reflected, domain="int", other_domain="int")


def _logical(name: str, word: str) -> Row:
    doc = f"Logical {word} of every leaf and `other`, where nonzero counts as true."
    return Row(f"logical_{name}", "binary", doc, result="bool", numbers="no", domain="bool", other_domain="bool")


UNARY: Final = (
    _unary("abs", "Absolute value of every leaf.", forward="__abs__", aliases=("absolute",)),
    _floating("acos", "Inverse cosine of every leaf, in radians.", "unit", aliases=("arccos",)),
    _floating("asin", "Inverse sine of every leaf, in radians.", "unit", aliases=("arcsin",)),
    _floating("atan", "Inverse tangent of every leaf, in radians.", aliases=("arctan",)),
    _unary("ceil", "Smallest integer not below each element of every leaf."),
    _floating("cos", "Cosine of every leaf, in radians."),
    _floating("cosh", "Hyperbolic cosine of every leaf."),
    _floating("erf", "Error function of every leaf."),
    _floating("erfc", "Complementary error function of every leaf."),
    _floating("exp", "Exponential of every leaf."),
    _floating("expm1", "Exponential minus one of every leaf, accurate near zero."),
    _unary("floor", "Largest integer not above each element of every leaf."),
    _floating("frac", "Fractional part of every leaf, with the sign of the element."),
    _floating("lgamma", "Logarithm of the absolute value of the gamma function of every leaf.", "positive"),
    _floating("log", "Natural logarithm of every leaf.", "positive"),
    _floating("log10", "Logarithm to base 10 of every leaf.", "positive"),
    _floating("log1p", "Natural logarithm of one plus every leaf, accurate near zero.", "positive"),
    _floating("log2", "Logarithm to base 2 of every leaf.", "positive"),
    _unary("neg", "Every leaf with its sign reversed.", forward="__neg__", aliases=("negative",)),
    _floating("reciprocal", "One divided by every leaf.", "nonzero"),
    _unary("round", "Every leaf rounded to the nearest integer, halves to even."),
    _floating("rsqrt", "One divided by the square root of every leaf.", "positive"),
    _floating("sigmoid", "Logistic function of every leaf."),
    _unary("sign", "Sign of every leaf: -1, 0 or 1."),
    _floating("sin", "Sine of every leaf, in radians."),
    _floating("sinh", "Hyperbolic sine of every leaf."),
    _floating("sqrt", "Square root of every leaf.", "positive"),
    _floating("tan", "Tangent of every leaf, in radians.", "unit"),
    _floating("tanh", "Hyperbolic tangent of every leaf."),
    _unary("trunc", "Every leaf without its fractional part.", aliases=("fix",)),
    Row("bitwise_not", "unary", "Bitwise complement of every leaf.", forward="__invert__", domain="int"),
    Row("logical_not", "predicate", "Logical complement of every leaf, where nonzero counts as true.", result="bool"),
)

PREDICATES: Final = (
    _predicate("isfinite", "Where every leaf is neither infinite nor nan."),
    _predicate("isinf", "Where every leaf is infinite."),
    _predicate("isnan", "Where every leaf is nan."),
    _predicate("isneginf", "Where every leaf is negative infinity."),
    _predicate("isposinf", "Where every leaf is positive infinity."),
    _predicate("isreal", "Where every leaf has no imaginary part."),
)

ARITHMETIC: Final = (
    Row(
        "add",
        "binary",
        "Every leaf plus `other`, which is scaled by `alpha`.",
        foreach="add",
        in_place=True,
        forward="__add__",
        reflected="__radd__",
        augmented="__iadd__",
        options=("alpha",),
    ),
    Row(
        "sub",
        "binary",
        "Every leaf minus `other`, which is scaled by `alpha`.",
        foreach="sub",
        in_place=True,
        forward="__sub__",
        augmented="__isub__",
        options=("alpha",),
        aliases=("subtract",),
    ),
    Row(
        "rsub",
        "binary",
        "`other` minus every leaf, which is scaled by `alpha`.",
        foreach="sub",
        swap=True,
        reflected="__rsub__",
        options=("alpha",),
    ),
    Row(
        "mul",
        "binary",
        "Every leaf times `other`.",
        foreach="mul",
        in_place=True,
        forward="__mul__",
        reflected="__rmul__",
        augmented="__imul__",
        aliases=("multiply",),
    ),
    Row(
        "div",
        "binary",
        "Every leaf divided by `other`; integers give floating point.",
        result="floating",
        foreach="div",
        in_place=True,
        forward="__truediv__",
        reflected="__rtruediv__",
        augmented="__itruediv__",
        swapped="truediv",
        domain="nonzero",
        other_domain="nonzero",
        aliases=("divide", "true_divide"),
    ),
    Row(
        "floor_divide",
        "binary",
        "Every leaf divided by `other` and rounded down.",
        forward="__floordiv__",
        reflected="__rfloordiv__",
        swapped="floordiv",
        domain="nonzero",
        other_domain="nonzero",
    ),
    Row(
        "mod",
        "binary",
        "Remainder of every leaf divided by `other`, with the sign of `other`.",
        torch="remainder",
        forward="__mod__",
        reflected="__rmod__",
        swapped="mod",
        domain="nonzero",
        other_domain="nonzero",
    ),
    Row(
        "pow",
        "binary",
        "Every leaf to the power `other`.",
        foreach="pow",
        in_place=True,
        forward="__pow__",
        reflected="__rpow__",
        augmented="__ipow__",
        swapped="pow",
        domain="positive",
        other_domain="positive",
    ),
    Row(
        "maximum",
        "binary",
        "The larger of every leaf and `other`; nan wins.",
        foreach="maximum",
        in_place=True,
        numbers="no",
    ),
    Row(
        "minimum",
        "binary",
        "The smaller of every leaf and `other`; nan wins.",
        foreach="minimum",
        in_place=True,
        numbers="no",
    ),
    Row("clamp_max", "binary", "Every leaf limited to at most `other`.", foreach="clamp_max", in_place=True),
    Row("clamp_min", "binary", "Every leaf limited to at least `other`.", foreach="clamp_min", in_place=True),
)

BITWISE: Final = (
    _bitwise("and", "and"),
    _bitwise("or", "or"),
    _bitwise("xor", "exclusive or"),
    _logical("and", "and"),
    _logical("or", "or"),
    _logical("xor", "exclusive or"),
)

COMPARISONS: Final = (
    _comparison("eq", "Where every leaf equals `other`.", ""),
    _comparison("ne", "Where every leaf differs from `other`.", "not_equal"),
    _comparison("lt", "Where every leaf is less than `other`.", "less"),
    _comparison("le", "Where every leaf is at most `other`.", "less_equal"),
    _comparison("gt", "Where every leaf is greater than `other`.", "greater"),
    _comparison("ge", "Where every leaf is at least `other`.", "greater_equal"),
)

TERNARY: Final = (
    Row(
        "addcmul",
        "ternary",
        "Every leaf plus `value` times the product of two others.",
        foreach="addcmul",
        in_place=True,
        options=("value",),
        numbers="no",
    ),
    Row(
        "addcdiv",
        "ternary",
        "Every leaf plus `value` times the quotient of two others.",
        result="floating",
        foreach="addcdiv",
        in_place=True,
        options=("value",),
        numbers="no",
        other_domain="nonzero",
    ),
    Row(
        "lerp",
        "ternary",
        "Linear interpolation from every leaf to `end`, by `weight`; integers are cut.",
        foreach="lerp",
        in_place=True,
        numbers="last",
    ),
    Row(
        "clamp",
        "clamp",
        "Every leaf limited to the range from `min` to `max`.",
        in_place=True,
        numbers="together",
        aliases=("clip",),
    ),
)

ROWS: Final[tuple[Row, ...]] = (*UNARY, *PREDICATES, *ARITHMETIC, *BITWISE, *COMPARISONS, *TERNARY)
"""Every pointwise operation, in the order of the generated file."""


@dataclass(frozen=True)
class Unsupported:
    """A torch function that makes no sense for a container, and what to write instead."""

    name: str
    instead: str


_ON_ONE_FIELD = "it contracts feature dims, which differ from field to field: apply it to one field"
_BY_LEAF = "apply it to the leaves: `batch.apply(lambda t: ...)`"

UNSUPPORTED: Final[tuple[Unsupported, ...]] = (
    *(Unsupported(name, _ON_ONE_FIELD) for name in ("matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "einsum")),
    *(Unsupported(name, _BY_LEAF) for name in ("bitwise_left_shift", "bitwise_right_shift", "atan2", "fmod")),
    Unsupported("isclose", "compare with `(a - b).abs() < tolerance`"),
    Unsupported("allclose", "compare with `((a - b).abs() < tolerance).all()`"),
    Unsupported("divmod", "call `batch // other` and `batch % other`"),
    Unsupported("argsort", "sort one field, and index the batch with the order: `batch[batch['key'].argsort()]`"),
    *(Unsupported(name, "join them with `torch.cat` or `torch.stack`") for name in ("hstack", "vstack", "dstack")),
    Unsupported("index_select", "index the batch: `batch[index]`"),
    Unsupported("numel", "call `batch.numel()`"),
    Unsupported("detach", "call `batch.detach()`"),
    Unsupported("nn.functional.pad", "call `batch.pad(pad_size)`, which pads the batch dims"),
    Unsupported("sort", "sort one field, and index the batch with the order: `batch[batch['key'].argsort()]`"),
)
"""Operations that containers lack on purpose; the message for each names an alternative."""
