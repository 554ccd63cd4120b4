"""The tree of errors: every one is the builtin that callers would catch, keeps its text and survives pickling."""

from __future__ import annotations

import copy
import dataclasses
import pickle

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
    "ModuleError": (RuntimeError, ValueError, TypeError),
    "UnsupportedOperationError": (TypeError, NotImplementedError),
    "BuildError": (TypeError, ValueError),
    "MissingExtraError": (ImportError,),
}
TREE = {name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}


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
