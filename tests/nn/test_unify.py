"""Dims of pipelines against brute force: every assignment of small sizes is tried."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass._schema import Dim, Polynomial, parse_dims
from tensorclass.nn.check._unify import Clash, Rest, Terms, Unifier

SIZES = range(5)
TOKENS = ["0", "1", "2", "3", "4", "a", "b", "a", "b", "a+1", "b-1", "2*a", "a*b", "a//2", "a+b", "_"]
SHAPES = st.lists(st.sampled_from(TOKENS), min_size=0, max_size=3).map(" ".join)


def unify(left: str, right: str) -> tuple[Unifier, tuple, tuple]:
    """Two declarations of different scopes, made equal."""
    unifier = Unifier()
    have, want = unifier.scope().terms(parse_dims(left)), unifier.scope().terms(parse_dims(right))
    unifier.unify(have, want)
    return unifier, have, want


def solutions(have, want):
    """Every assignment of small sizes under which two shapes are equal, negative sizes left out."""
    names = sorted({name for size in (*have, *want) for name in size.names})
    for values in product(SIZES, repeat=len(names)):
        sizes = dict(zip(names, values, strict=True))
        left, right = ([size.evaluate(sizes) for size in terms] for terms in (have, want))
        if left == right and min(left, default=0) >= 0:
            yield sizes


@given(SHAPES, SHAPES)
def test_every_solution_is_kept(left, right):
    """What the unifier binds holds in every solution, and it refuses only where there is none."""
    unifier = Unifier()
    have, want = unifier.scope().terms(parse_dims(left)), unifier.scope().terms(parse_dims(right))
    if len(have) != len(want):
        with pytest.raises(Clash, match="event dim"):
            unifier.unify(have, want)
        return
    found = list(solutions(have, want))
    try:
        unifier.unify(have, want)
    except Clash:
        assert found == []
        return
    for sizes in found:
        for before, after in zip((*have, *want), unifier.resolve((*have, *want)), strict=True):
            assert before.evaluate(sizes) == after.evaluate(sizes)


@given(SHAPES, SHAPES)
def test_what_is_decided_is_a_solution(left, right):
    """When every size became a number, the two shapes are the same numbers."""
    try:
        unifier, have, want = unify(left, right)
    except Clash:
        return
    left_sizes, right_sizes = unifier.resolve(have), unifier.resolve(want)
    constants = [size.constant for size in (*left_sizes, *right_sizes)]
    if None not in constants:
        assert left_sizes == right_sizes
        assert min(constants, default=0) >= 0


@given(SHAPES, SHAPES, st.integers(0, 3), st.integers(0, 3))
def test_what_is_known_already_changes_nothing(left, right, sizes, rests):
    """Two shapes with names of their own meet as they would without all that was learned before."""
    fresh, used = Unifier(), Unifier()
    for left_, right_, times in (
        ("a*b a+b", "6 c", sizes),
        ("n-1", "m", sizes),
        ("...", "1 2", rests),
        ("k", "3", sizes),
    ):
        for _ in range(times):
            used.unify(used.scope().terms(parse_dims(left_)), used.scope().terms(parse_dims(right_)))
    results = []
    for unifier in (fresh, used):
        scopes = unifier.scope(), unifier.scope()
        terms = [scope.terms(parse_dims(text)) for scope, text in zip(scopes, (left, right), strict=True)]
        waiting = len(unifier.waiting)
        try:
            unifier.unify(*terms)
        except Clash as clash:
            results.append(str(clash))
        else:
            results.append(f"{[unifier.text(one) for one in terms]} {len(unifier.waiting) - waiting}")
    assert results[0] == results[1]


@pytest.mark.parametrize(("left", "right"), [("h//2 h", "3 8"), ("n-5 n", "k 3"), ("a*b a b", "6 2 4")])
@pytest.mark.parametrize("before", [(), ("...", "1 2"), ("a*b", "6"), ("n-1 n", "m 4"), ("n", "3")])
def test_contradictions_are_found_after_anything(left, right, before):
    """An equation that waits is settled by the sizes of the same shapes, whatever was learned before them."""
    unifier = Unifier()
    for _ in range(3 if before else 0):
        unifier.unify(*(unifier.scope().terms(parse_dims(text)) for text in before))
    terms = [unifier.scope().terms(parse_dims(text)) for text in (left, right)]
    with pytest.raises(Clash):
        unifier.unify(*terms)


PATTERNS = ["", "...", "1", "a", "1 ...", "... 2", "a ... a", "a b", "a ... b", "... a a", "*s a", "_ *s", "2 ... b 1",
            "a a+1", "... 2*a a", "1 2 ...", "... 1 2 1", "0", "2*a", "a-1 ...", "a 1 ... a", "_ _"]  # fmt: skip


def shapes_of(terms: Terms) -> set[tuple[int, ...]]:
    """All shapes of at most three dims with sizes below three that a declaration admits."""
    names = sorted({name for size in terms if isinstance(size, Polynomial) for name in size.names})
    room = 4 - sum(isinstance(size, Polynomial) for size in terms)
    rests = [rest for n in range(room) for rest in product(range(3), repeat=n)]
    found = set()
    for values in product(range(5), repeat=len(names)):
        sizes = dict(zip(names, values, strict=True))
        fixed = [size.evaluate(sizes) if isinstance(size, Polynomial) else None for size in terms]
        if {size for size in fixed if size is not None} <= {0, 1, 2}:
            found |= {sum(parts, ()) for parts in product(*(rests if size is None else [(size,)] for size in fixed))}
    return found


def test_equations_that_wait_together():
    """One size settles all equations in which it is; those of other names wait on."""
    unifier = Unifier()
    scope = unifier.scope()
    unifier.unify(scope.terms(parse_dims("a*b a*c+a a*d*e n-a")), unifier.scope().terms(parse_dims("6 8 4 k")))
    assert len(unifier.waiting) == 3
    unifier.unify(scope.terms(parse_dims("a")), unifier.scope().terms(parse_dims("2")))
    assert unifier.text(scope.terms(parse_dims("a b c"))) == "2 3 3"
    assert len(unifier.waiting) == 1
    with pytest.raises(Clash):
        unifier.unify(scope.terms(parse_dims("d e")), unifier.scope().terms(parse_dims("2 2")))
    with pytest.raises(Clash, match="would be -1"):
        unifier.unify(scope.terms(parse_dims("n")), unifier.scope().terms(parse_dims("1")))
    unifier.unify(scope.terms(parse_dims("d n")), unifier.scope().terms(parse_dims("2 2")))
    assert (unifier.waiting, unifier.text(scope.terms(parse_dims("e")))) == ([], "1")


@pytest.mark.parametrize("left", PATTERNS)
def test_shapes_of_any_rank(left):
    """The shapes that both declarations admit are admitted by both afterwards, and after a clash there are none."""
    for right in PATTERNS:
        unifier = Unifier()
        have, want = unifier.scope().terms(parse_dims(left)), unifier.scope().terms(parse_dims(right))
        common = shapes_of(have) & shapes_of(want)
        try:
            unifier.unify(have, want)
        except Clash:
            assert common == set(), right
            continue
        now = unifier.resolve(have), unifier.resolve(want)
        for before, after in zip((have, want), now, strict=True):
            assert common <= shapes_of(after) <= shapes_of(before), (right, unifier.text(after))
        open_ = [any(isinstance(size, Rest) for size in shape) for shape in now]
        assert now[0] == now[1] or unifier.waiting or any(open_), right
        closed = [any(not isinstance(size, Polynomial) for size in shape) for shape in (have, want)]
        assert now[0] == now[1] or unifier.waiting or all(closed), right


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("3 h w", "c 8 9", "3 8 9"),
        ("n n+1", "4 k", "4 5"),
        ("k 5", "n n+1", "4 5"),
        ("2*d", "8", "8"),
        ("h w", "n n", "h h"),
        ("... c", "2 3 4", "2 3 4"),
        ("2 3 4", "... c", "2 3 4"),
        ("*s c", "b ...", "*s c"),
        ("_ 4", "3 _", "3 4"),
        ("...", "...", "..."),
        ("", "...", ""),
        ("a*b 3", "6 b", "a*b 3"),
        ("2*d", "0", "0"),
        ("n", "0", "0"),
        ("n+2", "2", "2"),
    ],
)
def test_result(left, right, result):
    """What the left shape is known to be afterwards."""
    unifier, have, _ = unify(left, right)
    assert unifier.text(have) == result


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("3", "4", "event dim 0 is 3, here it is declared 4"),
        ("8 h", "8", "it has 2 event dims, 1 event dim"),
        ("... 3", "", "1 or more event dims, 0 event dims"),
        ("2*d", "7", "event dim 0"),
        ("n+5", "3", "event dim 0"),
        ("n n", "3 4", "event dim 1 is 3, here it is declared 4"),
        ("h h//2", "8 3", "event dim 1 is 4"),
        ("h//2 h", "3 8", "contradict"),
        ("h h+1", "n n", "event dim"),
        ("1 ... 3", "... 2", "event dim -1 is 3"),
        ("n-5 n", "k 3", "would be -2"),
    ],
)
def test_clash(left, right, words):
    """Shapes that can't be equal say where."""
    with pytest.raises(Clash) as info:
        unify(left, right)
    assert words in str(info.value)


def test_a_clash_binds_nothing():
    """After a refused read the sizes are what they were."""
    unifier = Unifier()
    have, want = unifier.scope().terms(parse_dims("h w")), unifier.scope().terms(parse_dims("3 3+1"))
    other = unifier.scope().terms(parse_dims("5 5"))
    unifier.unify(have, want)
    assert unifier.text(have) == "3 4"
    with pytest.raises(Clash):
        unifier.unify(have, other)
    assert unifier.text(have) == "3 4"


def test_fits_binds_nothing():
    """Asking does not change what is known."""
    unifier = Unifier()
    have, want = unifier.scope().terms(parse_dims("h w")), unifier.scope().terms(parse_dims("3 4"))
    assert unifier.fits(have, want)
    assert not unifier.fits(want, unifier.scope().terms(parse_dims("4 4")))
    assert unifier.text(have) == "h w"


def test_names_of_one_scope_are_one_variable():
    """Equal names of different modules are independent; within one they are equal."""
    unifier = Unifier()
    one, other = unifier.scope(), unifier.scope()
    unifier.unify(one.terms(parse_dims("n")), unifier.scope().terms(parse_dims("7")))
    assert unifier.text(one.terms(parse_dims("n 2*n"))) == "7 14"
    assert unifier.text(other.terms(parse_dims("n"))) == "n"


def test_polynomials_hash_alike():
    """Terms that are equal are one: the unifier relies on the normal form."""
    assert parse_dims("2*(h+1)").tokens[0] == Dim(Polynomial.of("h") * 2 + 2, "")
