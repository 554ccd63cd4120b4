"""Rules of dims and constraints against small models: sizes tried one by one, sets of numbers, orders of dims."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import Schema, TensorClass, schema
from tensorclass._dims import Bindings, DimMap, dims_within, parse_dims
from tensorclass._schema._accepted import constraint_rows
from tensorclass.errors import SchemaError
from tensorclass.typing import Float64, Int64

# ---- dims --------------------------------------------------------------------------------------------------------

WORDS = ("0", "1", "2", "a", "b", "a+1", "2*b", "a*b", "a//2", "2//b", "_", "...", "*r")
SHAPES = [shape for rank in range(4) for shape in itertools.product(range(4), repeat=rank)]


def value_of(word: str, sizes: dict[str, int]) -> int | None:
    """The size of a word; None if it divides by zero."""
    try:
        return int(eval(word, dict(sizes)))
    except ZeroDivisionError:
        return None


def fits(words: Sequence[str], shape: Sequence[int], sizes: dict[str, Any]) -> bool:
    """Whether a shape has these dims, with given sizes of names; `*r` has the sizes `sizes["*r"]`."""
    if not words:
        return not shape
    if words[0] in ("...", "*r"):
        heads = [i for i in range(len(shape) + 1) if words[0] == "..." or tuple(shape[:i]) == sizes["*r"]]
        return any(fits(words[1:], shape[i:], sizes) for i in heads)
    if not shape or (words[0] != "_" and value_of(words[0], sizes) != shape[0]):
        return False
    return fits(words[1:], shape[1:], sizes)


DIMS = st.lists(st.sampled_from(WORDS), max_size=3).filter(lambda words: sum(w in ("...", "*r") for w in words) < 2)
FIELDS = st.lists(st.tuples(DIMS, st.sampled_from(SHAPES)), min_size=1, max_size=3)
RESTS = [shape for shape in SHAPES if len(shape) < 4]


def bound(fields: Sequence[tuple[Sequence[str], Sequence[int]]]) -> tuple[Bindings, list[Any]]:
    """The bindings of some fields, and their problems."""
    found = Bindings()
    problems = [
        p for i, (words, shape) in enumerate(fields) for p in found.bind(f"f{i}", parse_dims(" ".join(words)), shape)
    ]
    return found, [*problems, *found.finish()]


@given(FIELDS)
def test_fields_fit_where_some_sizes_make_them_fit(fields):
    """Fields that some sizes make fit are accepted; accepted ones whose names are all known fit with these sizes."""
    found, problems = bound(fields)
    names = sorted({c for words, _ in fields for word in words for c in "ab" if c in word})
    choices = (
        {**dict(zip("ab", sizes, strict=True)), "*r": r}
        for sizes in itertools.product(range(5), repeat=2)
        for r in RESTS
    )
    possible = any(all(fits(words, shape, sizes) for words, shape in fields) for sizes in choices)
    if possible:
        assert problems == []
    elif not problems:  # then a named size is unknown
        assert not set(names) <= found.sizes.keys()
    if not problems and set(names) <= found.sizes.keys():
        assert all(
            fits(words, shape, {"*r": (), **found.sizes, **{f"*{n}": v for n, v in found.variadics.items()}})
            for words, shape in fields
        )
    assert bool(problems) == bool(bound(fields[::-1])[1])


@given(DIMS, st.sampled_from(SHAPES), st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)))
def test_a_permutation_that_is_proposed_fits(words, shape, sizes):
    """The hint is the first order of two to six dims that binds, and there is one whenever an order binds."""

    def problems(given_shape: Sequence[int]) -> list[Any]:
        bindings = Bindings()
        for name, size in sizes.items():
            assert bindings.bind(name, parse_dims(name), (size,)) == []
        return bindings.bind("x", parse_dims(" ".join(words)), given_shape, batch_dims=1)

    found = problems(shape)
    assume(found)
    orders = list(itertools.permutations(range(len(shape))))
    right = [order for order in orders if not problems([shape[i] for i in order])]
    if right and parse_dims(" ".join(words)).rank is not None:
        expected = ", ".join(["0", *(str(i + 1) for i in right[0])])
        assert found[0].hint.endswith(f"it looks like the dims are permuted: `.permute({expected})` would fit")
    else:
        assert "permuted" not in found[0].hint


RAGGED = st.lists(st.tuples(st.sampled_from("ab"), st.tuples(st.integers(0, 2), st.integers(0, 2))), max_size=3)
PLAIN = st.lists(st.sampled_from([w for w in WORDS if w not in ("...", "*r")]), max_size=2)
DENSE = st.lists(st.tuples(PLAIN, st.sampled_from([shape for shape in SHAPES if len(shape) < 3])), max_size=2)


@given(RAGGED, DENSE, st.booleans())
def test_lengths_of_elements_fit_where_some_sizes_make_them_fit(ragged, dense, later):
    """Where names have a length for each element, every element fits, with the same sizes of other names."""
    found, problems = Bindings(), []
    for i, (name, lengths) in enumerate(ragged):
        given_lengths = functools.partial(list, lengths) if later else lengths
        found.bind_elements(f"r{i}", parse_dims(f"{name} 3"), (2, 1), given_lengths)
    for i, (words, shape) in enumerate(dense):
        problems += found.bind(f"f{i}", parse_dims(" ".join(words)), shape)
    problems += found.finish()
    possible = any(
        all(
            all(sizes[name] == lengths[element] for name, lengths in ragged)
            and all(fits(words, shape, sizes) for words, shape in dense)
            for element in range(2)
            for sizes in [{"a": a, "b": b} | {name: lengths[element] for name, lengths in ragged}]
        )
        for a, b in itertools.product(range(5), repeat=2)
    )
    known = found.sizes.keys() | {name for name, _ in ragged}
    if possible:
        assert problems == []
    elif {c for words, _ in dense for word in words for c in "ab" if c in word} <= known:
        assert problems


FEW = ("2", "a", "b", "a+1", "_", "...", "*r")
SMALL = [words for n in range(3) for words in itertools.product(FEW, repeat=n) if sum(map("...*r".count, words)) < 2]


def test_narrower_dims_accept_fewer_shapes():
    """Dims are within others if all their shapes fit those, and say the size of each name; for every two dims."""
    sizes = [{"a": a, "b": b, "*r": r} for a, b, r in itertools.product((0, 2), (1, 3), ((1,), (2, 1)))]
    dims = {words: parse_dims(" ".join(words)) for words in SMALL}
    shapes = {words: [[s for s in SHAPES if fits(words, s, known)] for known in sizes] for words in SMALL}
    for parent, child in itertools.product(SMALL, repeat=2):
        fit = all(bound([(parent, shape) for shape in alike])[1] == [] for alike in shapes[child])
        found = dims_within(dims[child], dims[parent], DimMap([(dims[parent], dims[child])]))
        # Only the same expression is within one, and a part of `...` is within nothing else.
        open_ = ("a+1" in parent and "a" not in parent) or bool({"...", "*r"} & {*child})
        assert found == fit or (open_ and not found), (parent, child)


# ---- constraints -------------------------------------------------------------------------------------------------

HOLDS = {Ge: operator.ge, Gt: operator.gt, Le: operator.le, Lt: operator.lt}
QUARTERS = [number / 4 for number in range(-40, 41)]
BOUNDS = st.lists(
    st.builds(lambda mark, n: mark(n / 2), st.sampled_from(sorted(HOLDS, key=str)), st.integers(-8, 8)), max_size=3
)
LENGTHS = st.lists(st.builds(lambda mark, n: mark(n), st.sampled_from([MinLen, MaxLen]), st.integers(0, 4)), max_size=3)


def meets(mark: Any, number: float) -> bool:
    """Whether a number, or a length, meets a constraint."""
    if isinstance(mark, MinLen | MaxLen):
        return number >= mark.min_length if isinstance(mark, MinLen) else number <= mark.max_length
    if isinstance(mark, MultipleOf):
        return bool(number % mark.multiple_of == 0)
    return bool(HOLDS[type(mark)](number, getattr(mark, type(mark).__name__.lower())))


def some(kind: Any, marks: Sequence[Any]) -> Schema:
    """The schema of a class whose only field has some constraints, which are checked."""
    space = {"__annotations__": {"x": Annotated[(kind, *marks)] if marks else kind}, "__module__": __name__}
    return schema(type(TensorClass)("Some", (TensorClass,), space, validate="values"))


@pytest.mark.parametrize(
    ("kind", "numbers", "marks"),
    [
        (Int64[Tensor, "n"], range(-10, 11), BOUNDS),
        (Float64[Tensor, "n"], QUARTERS, BOUNDS),
        (int, range(-10, 11), BOUNDS),
        (float, QUARTERS, BOUNDS),
        (str, range(9), LENGTHS),
        (Int64[Tensor, "n"], range(9), LENGTHS),
        (Int64[Tensor, "n"], range(61), st.builds(MultipleOf, st.integers(1, 6)).map(lambda mark: [mark])),
    ],
    ids=["whole tensor", "real tensor", "int", "float", "length", "length of a tensor", "multiple"],
)
@given(data=st.data())
def test_effects_of_constraints_are_those_of_sets(kind, numbers, marks, data):
    """Fewer accepted values break, more widen, equal sets are compatible; bounds that nothing meets are refused."""
    old, new = data.draw(marks), data.draw(marks)
    held = [{number for number in numbers if all(meets(mark, number) for mark in side)} for side in (old, new)]
    declared = []
    for side, values in zip((old, new), held, strict=True):
        if not values and kind not in (int, Int64[Tensor, "n"]):  # of whole numbers, `> 0` with `< 1` is not looked at
            with pytest.raises(SchemaError, match="nothing meets both"):
                some(kind, side)
        assume(values)
        declared.append(some(kind, side))
    one, other = declared
    expected = "breaking" if not held[0] <= held[1] else "compatible" if held[0] == held[1] else "widening"
    assert one.diff(other).effect == expected
    assert bool(one.diff(other)) == (constraint_rows(old) != constraint_rows(new))
