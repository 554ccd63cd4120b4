"""The tree of errors: every one is the builtin that callers would catch, keeps its text and survives pickling."""

from __future__ import annotations

import ast
import builtins
import copy
import dataclasses
import pickle
from collections.abc import Iterator

import pytest

from tensorclass import errors
from tensorclass.errors import (
    BuildError,
    MissingExtraError,
    MissingKeyError,
    Problem,
    SchemaError,
    TensorClassError,
    did_you_mean,
    nearest,
)
from tests._sources import Source, sources

BUILTINS = {
    "SchemaError": (ValueError, TypeError, RuntimeError),
    "DimSyntaxError": (ValueError,),
    "FieldNotProducedError": (AttributeError,),
    "UnknownFieldError": (AttributeError,),
    "MissingKeyError": (KeyError,),
    "InvalidKeyError": (KeyError, TypeError, RuntimeError),
    "KeyThroughLeafError": (KeyError, TypeError, ValueError),
    "LockedError": (RuntimeError,),
    "FrozenError": (errors.LockedError, dataclasses.FrozenInstanceError),
    "BatchSizeError": (RuntimeError, ValueError, TypeError),
    "BatchIndexError": (IndexError, RuntimeError),
    "BatchDimError": (IndexError, RuntimeError, ValueError),
    "StructureError": (RuntimeError, ValueError),
    "KeySetError": (errors.StructureError, KeyError),
    "ArgumentError": (errors.StructureError, TypeError),
    "CastError": (TypeError,),
    "FileFormatError": (ValueError, RuntimeError),
    "ChecksumError": (errors.FileFormatError,),
    "MemoryBudgetError": (errors.FileFormatError, OSError),
    "ModuleError": (RuntimeError, ValueError, TypeError),
    "WorkerError": (RuntimeError,),
    "UnsupportedOperationError": (TypeError, NotImplementedError),
    "BuildError": (TypeError, ValueError),
    "MissingExtraError": (ImportError,),
}
TREE = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
}


def test_every_error_is_listed_here():
    """A new error states which builtin it is."""
    ours = {name for name, value in TREE.items() if value.__module__ == errors.__name__}
    assert ours - {"TensorClassError"} == set(BUILTINS)


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_errors_are_builtins(name):
    """Each error is caught by the builtins that code without us would catch, and by our root."""
    assert issubclass(TREE[name], (TensorClassError,))
    assert all(issubclass(TREE[name], base) for base in BUILTINS[name])
    assert TREE[name].__doc__


@pytest.mark.parametrize("name", sorted(BUILTINS))
@pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_errors_keep_their_text(name, twin):
    """The text is the message itself, also for KeyErrors, also after a trip to another process."""
    error = TREE[name]("no `x`\n'quoted'")
    assert str(error) == str(twin(error)) == "no `x`\n'quoted'"
    assert type(twin(error)) is TREE[name]


def test_schema_error_survives_pickling():
    """Problems and class name are kept."""
    error = SchemaError.of("Digits", [Problem("label", "Int64", "float32", "cast it")])
    again = pickle.loads(pickle.dumps(error))
    assert (again.problems, again.cls_name, str(again)) == (error.problems, "Digits", str(error))


def test_build_error_survives_pickling():
    """Diagnostics are kept."""
    assert pickle.loads(pickle.dumps(BuildError("bad", ["E101"]))).diagnostics == ("E101",)


def test_schema_error_prints_every_problem():
    """One block for each problem; a hint of several lines stays in its column."""
    problems = [Problem("image", 'Float32["8"]', "int64 [2, 8]", "cast\nor declare"), Problem("label", "str", "None")]
    assert str(SchemaError.of("Digits", problems)) == (
        "Digits: 2 problems\n"
        "image\n"
        '  declared: Float32["8"]\n'
        "  given:    int64 [2, 8]\n"
        "  hint:     cast\n"
        "            or declare\n"
        "label\n"
        "  declared: str\n"
        "  given:    None"
    )


def test_schema_error_counts_one():
    """One problem is no plural."""
    assert str(SchemaError.of("A", [Problem("x", "str", "3")])).startswith("A: 1 problem\n")


def test_missing_key_keeps_its_key():
    """A KeyError that was raised with a key still gives it."""
    assert MissingKeyError("x").args == ("x",)
    assert str(KeyError("x")) == "'x'"
    assert str(MissingKeyError("x")) == "x"


def test_missing_extra_names_the_command():
    """The reader can copy what to type."""
    assert "pip install 'tensorclass[hdf5]'" in str(MissingExtraError.of("An HDF5 file", "h5py", "hdf5"))


@pytest.mark.parametrize(
    ("name", "candidates", "found"),
    [
        ("lable", ["image", "label"], "label"),
        ("LABEL", ["image", "label"], "label"),
        ("xyz", ["image", "label"], None),
        ("label", [], None),
        ("imag", ["image", "images"], "image"),
        ("lable", ["table", "label"], "label"),
        ("lok", ["tok", "loc"], "loc"),
    ],
)
def test_nearest(name, candidates, found):
    """A likely misspelling is found, case aside; anything else is not guessed."""
    assert nearest(name, candidates) == found
    assert did_you_mean(name, candidates) == ("" if found is None else f"; did you mean `{found}`?")


PLAIN = {
    ("_dims/_grammar.py", "ValueError"): "caught where the whole text is known, and raised again as a DimSyntaxError",
    ("_dims/_polynomial.py", "KeyError"): "a size that is asked of a polynomial by the checks, which give all names",
    ("_dims/_polynomial.py", "ZeroDivisionError"): "caught beside the grammar's, and by the checks",
    ("nn/probe/_fake.py", "RuntimeError"): "what a kernel of torch would say, in a fake run",
    ("nn/probe/_prober.py", "AssertionError"): "a place that is never reached",
    ("io/_access.py", "AssertionError"): "a place that is never reached",
    ("store/_helpers.py", "AssertionError"): "assert_close is an assertion",
    ("testing/_doors.py", "AssertionError"): "assert_close is an assertion",
    ("classes/_meta.py", "AttributeError"): "looking an attribute of a class up, where Python's own words are expected",
    ("classes/_reference.py", "AttributeError"): "Python's protocol: a private name that a reference does not have",
    ("classes/_base.py", "AttributeError"): "Python's protocol: a private name that an instance does not have",
    ("store/entries/_object_table.py", "AttributeError"): "Python's protocol: an attribute that an entry does not have",
    ("classes/_pydantic.py", "AttributeError"): "pydantic asks whether there is a serializer",
    ("_deferred.py", "AttributeError"): "Python's protocol of modules",
    ("compat/_finder.py", "AttributeError"): "Python's protocol of modules",
    ("compat/_finder.py", "ImportError"): "a module that an import asks for",
    ("compat/_install.py", "ImportError"): "the real package is there already",
    ("compat/_names.py", "AttributeError"): "caught by the finder, which names the page",
    ("compat/_lenient.py", "TypeError"): "the text of Python's constructors, on which programs branch",
    ("compat/_names.py", "ImportError"): "a name that an import asks for, and that there is no container for",
    ("compat/_names.py", "IndexError"): "what programs for `tensordict` catch",
    ("nn/parts/_unnamed.py", "AttributeError"): "Python asks every object for the methods of its protocols",
    ("parallel/_processes.py", "MemoryError"): "the system has no room to map a result",
    ("store/_absent.py", "AttributeError"): "Python's protocol of modules",
    ("store/_absent.py", "ImportError"): "a name that an import asks for, and that there is no container for",
    ("__init__.py", "AttributeError"): "Python's protocol of modules that load names late",
}
"""Builtin errors that the package raises on purpose: protocols of Python, and what is caught within the package."""


def builtin_raises(source: Source) -> Iterator[tuple[str, str, int]]:
    """Every `raise` of a builtin error; the bare NotImplementedError of a primitive is left out."""
    for node in ast.walk(source.tree):
        call = node.exc if isinstance(node, ast.Raise) else None
        name = call.func if isinstance(call, ast.Call) else call
        error = getattr(builtins, name.id, None) if isinstance(name, ast.Name) else None
        if not isinstance(error, type) or issubclass(error, (OSError, StopIteration)):
            continue
        if isinstance(call, ast.Call) or error is not NotImplementedError:
            yield source.name, error.__name__, node.lineno


def test_what_users_see_is_of_the_tree():
    """`except TensorClassError` catches every refusal: files that can't be read and Python's protocols apart."""
    found = [row for source in sources() for row in builtin_raises(source)]
    assert [f"{name}:{line} raises {error}" for name, error, line in found if (name, error) not in PLAIN] == []
    assert PLAIN.keys() == {(name, error) for name, error, _ in found}


def test_the_lint_sees_a_builtin_error():
    """Called or not; errors of the tree, of the system and of primitives are let through."""
    lines = ["ValueError(1)", "KeyError", "NotImplementedError", "OSError(2)", "ArgumentError(3)", ""]
    text = "\n".join([f"raise {line}" for line in lines])
    assert [error for _, error, _ in builtin_raises(Source("x.py", text))] == ["ValueError", "KeyError"]
