"""Dims of equal name across the fields of one instance: bound, solved, deferred, refused."""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tensorclass._schema import Bindings, parse_dims


def bind(*fields: tuple[str, str, tuple[int, ...]]) -> tuple[dict[str, int], list[str]]:
    """The sizes that fields bind, and the hints of their problems."""
    bindings = Bindings()
    problems = [problem for path, dims, shape in fields for problem in bindings.bind(path, parse_dims(dims), shape)]
    return bindings.sizes, [f"{problem.path}: {problem.hint}" for problem in problems + bindings.finish()]


def test_names_are_bound():
    """A name takes the size of the dim where it stands."""
    assert bind(("image", "3 h w", (3, 4, 5)), ("mask", "h w", (4, 5))) == ({"h": 4, "w": 5}, [])


def test_a_clash_says_where_the_name_was_bound():
    """The message names the field that bound the dim."""
    _, hints = bind(("image", "3 h w", (3, 8, 8)), ("mask", "h w", (8, 7)))
    assert hints == ["mask: event dim 1 is `w`: `w` is 8 (bound by `image`), here 7"]


def test_a_clash_within_one_field():
    """A name may stand twice in one shape."""
    assert bind(("cov", "n n", (3, 3)))[1] == []
    assert bind(("cov", "n n", (3, 4)))[1] == ["cov: event dim 1 is `n`: `n` is 3 (bound by `cov`), here 4"]


def test_literal_dims():
    """A number is compared."""
    assert bind(("x", "3 h", (4, 4)))[1] == ["x: event dim 0 is `3`: 3 is declared, here 4"]


def test_one_unknown_is_solved():
    """A linear size gives its name."""
    assert bind(("x", "2*d+1", (7,)), ("y", "d", (3,))) == ({"d": 3}, [])


def test_fraction_and_negative_are_errors():
    """A size is a whole number from 0."""
    assert bind(("x", "2*d", (7,)))[1] == ["x: event dim 0 is `2*d`: no size `d` makes `2*d` 7"]
    assert bind(("x", "d+3", (1,)))[1] == ["x: event dim 0 is `d+3`: no size `d` makes `d+3` 1"]


def test_other_equations_wait():
    """A size with two unknowns is checked when another field has bound them."""
    fields = [("flat", "h*w", (12,)), ("image", "h w", (3, 4))]
    assert bind(*fields) == ({"h": 3, "w": 4}, [])
    assert bind(("flat", "h*w", (13,)), fields[1])[1] == [
        "flat: `h*w` is 12 (`h` is 3, bound by `image`; `w` is 4, bound by `image`), here 13"
    ]


def test_waiting_equations_solve_each_other():
    """A waiting size becomes linear when one of its names is bound."""
    sizes, hints = bind(("flat", "h*w", (12,)), ("half", "w//2", (2,)), ("rows", "h", (3,)))
    assert (sizes, hints) == ({"h": 3, "w": 4}, [])
    assert bind(("half", "h//2", (2,)), ("rows", "h", (7,)))[1] == [
        "half: `h//2` is 3 (`h` is 7, bound by `rows`), here 2"
    ]


def test_what_stays_unknown_passes():
    """Without the sizes of its names nothing can be said about a size."""
    assert bind(("flat", "h*w", (12,)), ("half", "k//2", (2,))) == ({}, [])


def test_any_dim():
    """`_` takes any size and binds nothing."""
    assert bind(("x", "_ 3", (9, 3))) == ({}, [])


def test_variadic_dims():
    """`...` takes any dims; `*name` the same ones wherever it stands."""
    assert bind(("x", "... 3", (9, 8, 3)), ("y", "2 ...", (2,)))[1] == []
    assert bind(("x", "*s c", (4, 5, 3)), ("y", "*s", (4, 5)))[1] == []
    assert bind(("x", "*s c", (4, 5, 3)), ("y", "*s", (4, 6)))[1] == [
        "y: event dim 0 is `*s`: `*s` is [4, 5] (bound by `x`), here [4, 6]"
    ]


def test_rank():
    """A shape of another rank is refused before its dims are compared."""
    assert bind(("x", "3 h", (3,)))[1] == ["x: 2 event dims are declared, 1 given"]
    assert bind(("x", "... 3 h", (3,)))[1] == ["x: 2 or more event dims are declared, 1 given"]


def test_a_wrong_field_binds_nothing():
    """One wrong field does not make the next ones look wrong."""
    sizes, hints = bind(("image", "3 h w", (4, 8, 8)), ("mask", "h w", (5, 5)))
    assert sizes == {"h": 5, "w": 5}
    assert len(hints) == 1


def test_division_by_zero_is_a_problem():
    """A size that divides by a dim of size 0 is reported."""
    assert bind(("x", "n", (0,)), ("y", "12//n", (3,)))[1] == [
        "y: event dim 0 is `12//n`: `12//n` divides by zero (`n` is 0, bound by `x`)"
    ]


def test_permuted_dims_are_recognised():
    """A transposed image gets the call that mends it, batch dims included."""
    problem = Bindings().bind("image", parse_dims("3 h w"), (224, 200, 3), batch_dims=1)[0]
    assert "it looks like the dims are permuted: `.permute(0, 3, 1, 2)` would fit" in problem.hint


def test_other_shapes_are_not_called_permuted():
    """The hint stands only where a permutation fits, of two to six dims."""
    assert "permuted" not in Bindings().bind("image", parse_dims("3 h w"), (4, 5, 6))[0].hint
    assert ".permute(1, 0)" in Bindings().bind("points", parse_dims("n 3"), (3, 7))[0].hint
    assert "permuted" in Bindings().bind("x", parse_dims("a b c d e 3"), (3, 1, 1, 1, 1, 2))[0].hint
    assert "permuted" not in Bindings().bind("x", parse_dims("a b c d e f 3"), (3, 1, 1, 1, 1, 1, 2))[0].hint


@given(st.lists(st.integers(0, 6), min_size=2, max_size=4))
def test_valid_shapes_always_bind(sizes):
    """Shapes that were made from sizes are accepted in any order of fields."""
    names = "abcd"[: len(sizes)]
    fields = [
        ("plain", " ".join(names), tuple(sizes)),
        ("flat", "*".join(names), (prod(sizes),)),
        ("half", f"({names[0]}+{names[1]})//2 2*{names[-1]}+1", ((sizes[0] + sizes[1]) // 2, 2 * sizes[-1] + 1)),
    ]
    for order in (fields, fields[::-1]):
        assert bind(*order) == (dict(zip(names, sizes, strict=True)), [])


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_wrong_products_are_found(a, b, wrong):
    """A product that does not agree is refused in both orders of fields."""
    given_size = a * b + wrong + 1
    fields = [("plain", "a b", (a, b)), ("flat", "a*b", (given_size,))]
    assert len(bind(*fields)[1]) == 1
    assert len(bind(*fields[::-1])[1]) == 1


def test_sizes_that_vanish():
    """A size that is known although one of its names is not: a product with zero, a difference of equals."""
    assert bind(("x", "m", (0,)), ("y", "m*n", (0,)))[1] == []
    assert bind(("x", "m", (0,)), ("y", "m*n*k", (3,)))[1] != []
    assert bind(("x", "m", (2,)), ("y", "(2*n+1)//m", (5,)), ("z", "n", (4,)))[1] != []
    assert bind(("x", "m", (2,)), ("y", "(2*n+1)//m", (5,)), ("z", "n", (5,)))[1] == []


def elements(*ragged: tuple[str, str, list[int] | None], batch: tuple[int, ...] = (2, 2), **dense: Any) -> list[str]:
    """The problems of ragged fields with some lengths, and of dense ones by their dims and shape."""
    bindings = Bindings()
    for path, dims, lengths in ragged:
        bindings.bind_elements(path, parse_dims(dims), batch, lambda held=lengths: held)
    problems = [p for path, (dims, shape) in dense.items() for p in bindings.bind(path, parse_dims(dims), shape)]
    return [f"{p.path}: {p.declared}: {p.given}: {p.hint}" for p in problems + bindings.finish()]


def test_lengths_that_differ():
    """The message names the first wrong element by its place in the batch, and counts the others."""
    same = "dims of one name agree in every element"
    words = ("words", "t 3", [1, 2, 3, 4])
    assert elements(words, ("marks", "t", [1, 2, 3, 4])) == []
    assert elements(words, ("marks", "t", [1, 2, 9, 4])) == [
        f'marks[1][0]: "t": 9 entries: `t` is 3 in element [1][0] (bound by `words`), here 9; {same}'
    ]
    assert elements(words, ("marks", "t", [1, 0, 9, 4])) == [
        f'marks[0][1]: "t": 0 entries: `t` is 2 in element [0][1] (bound by `words`), here 0; {same}; 1 more differ'
    ]
    assert elements(("words", "t", [2]), ("marks", "t", [3]), batch=()) == [
        f'marks[]: "t": 3 entries: `t` is 2 in element [] (bound by `words`), here 3; {same}'
    ]
    assert elements(words, ("marks", "t", None)) == []  # lengths that can't be known


def test_lengths_and_sizes():
    """A size of the same name binds all lengths; expressions hold in every element, and may give another size."""
    words = ("words", "t", [1, 2, 1, 2])
    assert elements(words, x=("t", (1,))) == [
        'words[0][1]: "t": 2 entries: `t` is 1 in element [0][1] (bound by `x`), here 2; dims of one name agree in '
        "every element; 1 more differ"
    ]
    assert elements(words, x=("t*n", (2,))) == [
        'x: "t*n": shape [2]: in element [0][1]: `t*n` is 4 (`n` is 2, bound by `x`; `t` is 2, bound by `words`), '
        "here 2"
    ]
    assert elements(("words", "t", [2, 2, 2, 2]), x=("t*n", (6,)), y=("n", (3,))) == []
    assert elements(words, ("marks", "u", [5, 5, 5, 5]), x=("t*u", (5,))) == [
        'x: "t*u": shape [5]: in element [0][1]: `t*u` is 10 (`t` is 2, bound by `words`; `u` is 5, bound by `marks`), '
        "here 5"
    ]
