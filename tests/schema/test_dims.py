"""The grammar of dims: what is read, what it means, and what is refused with which words."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass._schema import AnyDim, Dim, Variadic, parse_dims
from tensorclass.errors import DimSyntaxError


@pytest.mark.parametrize(
    ("text", "rank", "literal", "names"),
    [
        ("", 0, (), ()),
        ("1 8 8", 3, (1, 8, 8), ()),
        ("3 h w", 3, None, ("h", "w")),
        ("h//2 2*(h+1)", 2, None, ("h",)),
        ("_ 3", 2, None, ()),
        ("... 3", None, None, ()),
        ("*b t", None, None, ("t",)),
        ("n 2*3", 2, None, ("n",)),
        ("2*3 0", 2, (6, 0), ()),
    ],
)
def test_what_dims_say(text, rank, literal, names):
    """Rank, literal sizes and names of a shape."""
    dims = parse_dims(text)
    assert (dims.rank, dims.literal, dims.names) == (rank, literal, names)


def test_names_in_other_scripts():
    """A name that Python reads as it is written may have any letters."""
    assert parse_dims("größe*2").names == ("größe",)


def test_tokens():
    """Each token is of its class, and prints as it was written; numbers in their shortest form."""
    dims = parse_dims("h+1 _ _width *rest")
    assert [type(token) for token in dims.tokens] == [Dim, AnyDim, AnyDim, Variadic]
    assert str(dims) == "h+1 _ _ *rest"
    assert str(parse_dims("2*4")) == "8"


def test_min_rank():
    """A variadic token may stand for no dim at all."""
    assert parse_dims("... 3 h").min_rank == 2
    assert parse_dims("3 h").min_rank == 2


def test_equality_is_that_of_sizes():
    """Dims are equal when their normal forms are; the text only shows how they were written."""
    assert parse_dims("h+1 w") == parse_dims("1+h  w")
    assert hash(parse_dims("h+1")) == hash(parse_dims("1+h"))
    assert parse_dims("h w") != parse_dims("w h")
    assert parse_dims("1+h").canonical == parse_dims("h+1").canonical == "h+1"
    assert str(parse_dims("1+h")) == "1+h"


def test_parsing_is_cached():
    """One text is one object."""
    assert parse_dims("3 h w") is parse_dims("3 h w")


@given(st.lists(st.sampled_from(["3", "h", "w", "_", "h//2", "n+1", "2*(a+b)"]), max_size=5))
def test_text_reads_back(words):
    """The text of dims, and their normal form, are the same dims."""
    dims = parse_dims(" ".join(words))
    assert parse_dims(str(dims)) == dims
    assert parse_dims(dims.canonical) == dims


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3,4", "write spaces, not commas"),
        ("3 -1", r"dim 2 of \"3 -1\" is `-1`: a size is 0 or more; write `_` for any size"),
        ("h**2", r"the operators are \+ - \* //"),
        ("h/2", r"the operators are \+ - \* //"),
        ("h%2", r"the operators are \+ - \* //"),
        ("h//0", "divided by zero"),
        ("#h", "broadcasting"),
        ("h=3", "write only the size or only the name"),
        ("?h", "not part of the grammar"),
        ("{h}", "not variables"),
        ("(h", "this is not a dim"),
        ("h w)", r"dim 2 of"),
        ("1.5", "this is not a dim"),
        ("class", "this is not a dim"),
        ("*class", "`class` is a keyword of Python"),
        ("f(x)", "this is not a dim"),
        ("... *b", "only one of"),
        ("... ...", "only one of"),
        ("*", "this is not a dim"),
        ("\ufb01x", "Python reads it as `fix`, which is another text: write that one"),
        ("(a+b+c+d)*(a+b+c+d)*(a+b+c+d)*(a+b+c+d)*(a+b+c+d)*(a+b+c+d)", "too long"),
    ],
)
def test_outside_the_grammar(text, words):
    """The message names the token, its position and what the grammar is."""
    with pytest.raises(DimSyntaxError, match=words) as caught:
        parse_dims(text)
    assert isinstance(caught.value, ValueError)


def test_deep_nesting_is_refused():
    """A hostile text is an error, not a crash."""
    with pytest.raises(DimSyntaxError):
        parse_dims("-" * 100_000 + "h")
    with pytest.raises(DimSyntaxError):
        parse_dims("(" * 5_000 + "h" + ")" * 5_000)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text):
    """No text raises anything else than the error of the grammar."""
    try:
        dims = parse_dims(text)
    except DimSyntaxError:
        return
    assert parse_dims(str(dims)) == dims


def test_not_a_string():
    """A tuple of sizes is refused with an example."""
    with pytest.raises(DimSyntaxError, match='a shape is a string such as "3 h w"'):
        parse_dims((3, 4))


def test_pickle():
    """Dims survive pickling."""
    dims = parse_dims("3 h//2 *rest")
    assert pickle.loads(pickle.dumps(dims)) == dims
