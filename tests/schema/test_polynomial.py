"""Polynomials against Python's own arithmetic: whatever is simplified must give the same number for all sizes."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tensorclass._schema import Polynomial, parse_dims

NAMES = ("a", "b", "c")
SIZES = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})


def _combine(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(parts, st.sampled_from(["+", "-", "*"]), parts).map(lambda t: f"({t[0]}{t[1]}{t[2]})")
    division = st.tuples(parts, st.integers(1, 6)).map(lambda t: f"({t[0]}//{t[1]})")
    return binary | division | st.tuples(parts, parts).map(lambda t: f"({t[0]}//({t[1]}+13))")


EXPRESSIONS = st.recursive(st.sampled_from(NAMES) | st.integers(0, 9).map(str), _combine, max_leaves=7)


def build(text: str) -> Polynomial:
    """The polynomial of an expression, made by Python's own operators on polynomials."""
    return Polynomial.of(eval(text, {name: Polynomial.of(name) for name in NAMES}))


@given(EXPRESSIONS, SIZES)
def test_value_is_that_of_python(text, sizes):
    """Simplification never changes the value."""
    try:
        expected = eval(text, dict(sizes))
        size = build(text)
    except ZeroDivisionError:
        assume(False)
    assert size.evaluate(sizes) == expected


@given(EXPRESSIONS)
def test_text_reads_back(text):
    """What a polynomial prints is the same polynomial."""
    try:
        size = build(text)
    except ZeroDivisionError:
        assume(False)
    assume(size.constant is None)
    assert parse_dims(str(size)).tokens[0].size == size


@given(EXPRESSIONS, SIZES)
def test_substitution_in_two_steps(text, sizes):
    """Names may be replaced one after the other."""
    try:
        size, whole = build(text), build(text).substitute(sizes)
        stepwise = size.substitute({"a": sizes["a"]}).substitute({"b": sizes["b"]}).substitute({"c": sizes["c"]})
    except ZeroDivisionError:
        assume(False)
    assert stepwise == whole
    assert whole.constant is not None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a+b", "b+a"),
        ("2*a-a", "a"),
        ("(a+b)*(a-b)", "a*a-b*b"),
        ("(2*a+1)//2", "a"),
        ("(a-1)//2+1", "(a+1)//2"),
        ("a//2//2", "a//4"),
        ("(a//2+3)//2", "(a+6)//4"),
        ("(a+2*1-3)//1+1", "a"),
        ("a//1", "a"),
        ("a*0", "0"),
    ],
)
def test_equal_sizes_are_one_object(left, right):
    """Equal expressions have one normal form, one hash and one text."""
    assert build(left) == build(right)
    assert hash(build(left)) == hash(build(right))
    assert str(build(left)) == str(build(right))


@pytest.mark.parametrize(("left", "right"), [("a", "b"), ("a//2*2", "a"), ("a//2", "a//3"), ("a+1", "a")])
def test_different_sizes_differ(left, right):
    """What differs for some sizes is not equal."""
    assert build(left) != build(right)


def test_constant_and_names():
    """A size without names is a number; names inside divisions count."""
    assert build("(a-a)+3").constant == 3
    assert build("a-a").constant == 0
    assert build("a").constant is None
    assert build("b+(a+c)//5").names == ("b", "a", "c")


def test_single_linear_is_solved():
    """One unknown of a linear size is solved, also to a fraction; anything else is not."""
    assert build("2*a+1").solve_for_single_linear(7) == ("a", Fraction(3))
    assert build("2*a").solve_for_single_linear(7) == ("a", Fraction(7, 2))
    assert build("a*a").solve_for_single_linear(4) is None
    assert build("a//2").solve_for_single_linear(4) is None
    assert build("a+b").solve_for_single_linear(4) is None
    assert build("a-a").solve_for_single_linear(0) is None


def test_isolate():
    """A name is isolated where its coefficient divides the rest."""
    assert build("2*a-4*b+6").isolate("a") == build("2*b-3")
    assert build("2*a-b").isolate("a") is None
    assert build("a*b-c").isolate("a") is None
    assert build("a-(a+c)//2").isolate("a") is None


def test_division_by_zero():
    """Dividing by zero is an error when it is known and when it becomes known."""
    with pytest.raises(ZeroDivisionError):
        build("a") // 0
    with pytest.raises(ZeroDivisionError):
        build("a//b").evaluate({"a": 3, "b": 0})


def test_missing_size_is_named():
    """Evaluating without a size says which."""
    with pytest.raises(KeyError, match="b"):
        build("a+b").evaluate({"a": 1})


def test_pickle():
    """A polynomial survives pickling."""
    size = build("(a+1)//2*b")
    assert pickle.loads(pickle.dumps(size)) == size
