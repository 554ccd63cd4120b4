"""What each rule says against a value, word by word: the path, what was given, what to do."""

from __future__ import annotations

import abc
from typing import Annotated, Any, Protocol

import numpy as np
import pytest
import torch
from annotated_types import Ge
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, Ragged, RaggedTensor, Shared, TensorClass, TensorDict
from tensorclass._schema._check import Options
from tensorclass.typing import Float32
from tests.schema._helpers import misfits, schema_for, stable


class Runs(Protocol):
    """An interface by members."""

    def run(self) -> None: ...


class Parent(abc.ABC):
    """An interface by inheritance."""

    @abc.abstractmethod
    def run(self) -> None: ...


class HasY(Protocol):
    """An interface that a typed class implements."""

    y: Any


class Point(TensorClass):
    """A nested class."""

    y: Float32[Tensor, ""]


ROWS = Ragged[Tensor, "t 2"]
BOUNDED = Annotated[ROWS, Ge(1)]
z = torch.zeros

CASES: list[tuple[Any, Any, Any, dict[str, Any], list[str]]] = [
    # ---- ranks and batch dims
    (
        Float32[Tensor, "3 h"],
        z(2),
        [2],
        {},
        ['x: float32 [2]: the batch size is [2] and the event dims are "3 h": 3 dims are expected, 1 given'],
    ),
    (
        Float32[Tensor, "3"],
        z(3),
        [2],
        {},
        [
            'x: float32 [3]: the batch size is [2] and the event dims are "3": 2 dims are expected, 1 '
            "given\nit has no batch dims: spread it with `.expand(2, 3)`, or declare `Shared[...]`"
        ],
    ),
    (
        Float32[Tensor, "3"],
        z(2),
        [2],
        {},
        ['x: float32 [2]: the batch size is [2] and the event dims are "3": 2 dims are expected, 1 given'],
    ),
    (
        Float32[Tensor, "3 4"],
        z(2, 3),
        [2],
        {},
        ['x: float32 [2, 3]: the batch size is [2] and the event dims are "3 4": 3 dims are expected, 2 given'],
    ),
    (
        Float32[Tensor, "3"],
        z(2, 1, 3),
        [2],
        {},
        [
            'x: float32 [2, 1, 3]: the batch size is [2] and the event dims are "3": 2 dims are '
            "expected, 3 given\n`.squeeze(1)` would fit"
        ],
    ),
    (
        Float32[Tensor, "3"],
        z(2, 3, 1),
        [2],
        {},
        [
            'x: float32 [2, 3, 1]: the batch size is [2] and the event dims are "3": 2 dims are '
            "expected, 3 given\n`.squeeze(2)` would fit"
        ],
    ),
    (
        Float32[Tensor, "3"],
        z(2, 3, 2),
        [2],
        {},
        ['x: float32 [2, 3, 2]: the batch size is [2] and the event dims are "3": 2 dims are expected, 3 given'],
    ),
    (
        Float32[Tensor, "3"],
        z(2, 1, 1, 3),
        [2],
        {},
        ['x: float32 [2, 1, 1, 3]: the batch size is [2] and the event dims are "3": 2 dims are expected, 4 given'],
    ),
    (
        Float32[Tensor, "3"],
        z(1, 2, 3),
        [2],
        {},
        ['x: float32 [1, 2, 3]: the batch size is [2] and the event dims are "3": 2 dims are expected, 3 given'],
    ),
    (
        Float32[Tensor, ""],
        z(2, 1),
        [2],
        {},
        [
            "x: float32 [2, 1]: the batch size is [2] and every element is a scalar: 1 dims are "
            "expected, 2 given\n`.squeeze(1)` would fit"
        ],
    ),
    (
        Float32[Tensor, "1 3"],
        z(2, 3),
        [2],
        {},
        [
            'x: float32 [2, 3]: the batch size is [2] and the event dims are "1 3": 3 dims are expected, '
            "2 given\n`.unsqueeze(1)` would fit"
        ],
    ),
    (
        Float32[Tensor, "3 1"],
        z(2, 3),
        [2],
        {},
        [
            'x: float32 [2, 3]: the batch size is [2] and the event dims are "3 1": 3 dims are expected, '
            "2 given\n`.unsqueeze(2)` would fit"
        ],
    ),
    (
        Float32[Tensor, "1"],
        z(3),
        [2],
        {},
        ['x: float32 [3]: the batch size is [2] and the event dims are "1": 2 dims are expected, 1 given'],
    ),
    (
        Float32[Tensor, "3 ..."],
        z(2),
        [2],
        {},
        ['x: float32 [2]: the batch size is [2] and the event dims are "3 ...": 2 or more dims are expected, 1 given'],
    ),
    (Float32[Tensor, "3"], z(4, 3), [2], {}, ["x: float32 [4, 3]: the batch size is [2], here [4]"]),
    (
        Tensor,
        z(3),
        [2],
        {},
        ["x: float32 [3]: the batch size is [2], here [3]; a tensor without batch dims is declared `Shared[...]`"],
    ),
    (
        Shared[Float32[Tensor, "3"]],
        z(2, 3),
        [2],
        {},
        [
            'x: float32 [2, 3]: a shared tensor has no batch dims and the event dims are "3": 1 dims are '
            "expected, 2 given"
        ],
    ),
    # ---- no tensors
    (
        Float32[Tensor, "3"],
        [1, 2, 3],
        [],
        {},
        ["x: list [1, 2, 3]: make a tensor: `torch.tensor(value, dtype=torch.float32)`"],
    ),
    (Tensor, [1, 2, 3], [], {}, ["x: list [1, 2, 3]: make a tensor: `torch.tensor(value)`"]),
    (
        Tensor,
        TensorDict(batch_size=[2]),
        [],
        {},
        ["x: TensorDict of batch size [2]: a tensor is declared; for a container declare `TensorDict`"],
    ),
    (Tensor, "abc", [], {}, ["x: str 'abc': pass a tensor, or declare `str` for a Python value"]),
    # ---- one length per element
    (
        ROWS,
        [z(2, 2), z(3, 2)],
        [3],
        {},
        ['x: 2 entries: the batch size is [3]: pass 3 here, one tensor of the shape "t 2" for each element'],
    ),
    (
        ROWS,
        [[z(2, 2)], [z(2, 2), z(1, 2)]],
        [2, 1],
        {},
        ['x[1]: 2 entries: the batch size is [2, 1]: pass 1 here, one tensor of the shape "t 2" for each element'],
    ),
    (
        ROWS,
        z(2, 2),
        [2],
        {},
        [
            "x: tensor float32 [2, 2]: pass a list of 2 tensors, or what is padded as "
            "`RaggedTensor.unpad(value, lengths)`"
        ],
    ),
    (
        ROWS,
        RaggedTensor([z(2, 2), z(1, 2)]),
        [3],
        {},
        ["x: RaggedTensor of batch size [2]: the batch size is [3], here [2]"],
    ),
    (
        ROWS,
        RaggedTensor([z(2, 2), z(1, 2)]),
        [],
        {},
        ["x: RaggedTensor of batch size [2]: the batch size is [], here [2]\n`batch_size=[2]` fits every field"],
    ),
    (
        ROWS,
        [[1.0, 2.0]],
        [1],
        {},
        [
            'x[0]: list [1.0, 2.0]: an element is a tensor: one tensor of the shape "t 2" for each '
            "element; make each a tensor, or give the class the option `autocast=True`"
        ],
    ),
    (
        ROWS,
        [z(())],
        [1],
        {},
        ['x[0]: tensor float32 []: an element is a tensor: one tensor of the shape "t 2" for each element'],
    ),
    (
        ROWS,
        [3, z(1, 2), None],
        [3],
        {},
        [
            'x[0]: int 3: an element is a tensor: one tensor of the shape "t 2" for each element',
            'x[2]: None: an element is a tensor: one tensor of the shape "t 2" for each element',
        ],
    ),
    (
        ROWS,
        3,
        [1],
        {},
        ['x: int 3: the batch size is [1]: pass 1 here, one tensor of the shape "t 2" for each element'],
    ),
    (
        ROWS,
        [z(2, 3), z(1, 2)],
        [2],
        {},
        [
            "x[0]: float32 [2, 3]: behind `t`, which differs from element to element: event dim 0 is "
            "`2`: 2 is declared, here 3",
            "x[1]: float32 [1, 2] on cpu: elements differ only in length, and `x[0]` is float32 [2, 3] on cpu",
        ],
    ),
    (
        RaggedTensor,
        [z(2, 2), z(1, 3)],
        [2],
        {},
        ["x[1]: float32 [1, 3] on cpu: elements differ only in length, and `x[0]` is float32 [2, 2] on cpu"],
    ),
    (RaggedTensor, [3], [1], {}, ["x[0]: int 3: an element is a tensor: one tensor for each element"]),
    (
        Float32[RaggedTensor, "t 2"],
        [z(2, 2).double(), z(1, 2).double()],
        [2],
        {},
        [
            "x[0]: float64 [2, 2]: convert with `.to(torch.float32)`, declare `Float64[...]`, or the "
            "family `Float[...]` for any of them"
        ],
    ),
    (
        BOUNDED,
        [z(2, 2)],
        [1],
        {"validate": "values"},
        ["x[0]: float32 [2, 2]: every element is >= 1; not so: 4 of 4 elements, first 0.0 at [0, 0]"],
    ),
    (
        BOUNDED,
        RaggedTensor([z(2, 2)]),
        [1],
        {"validate": "values"},
        ["x[0]: float32 [2, 2]: every element is >= 1; not so: 4 of 4 elements, first 0.0 at [0, 0]"],
    ),
    # ---- objects, one or one per element
    (
        PerElement[str],
        ["a"],
        [2],
        {},
        ["x: 1 values: the batch size is [2]: pass 2 values here, or one value for all elements"],
    ),
    (
        PerElement[int],
        z(2),
        [2],
        {},
        ["x: tensor float32 [2]: pass nested lists: `value.tolist()`, or declare a tensor"],
    ),
    (
        PerElement[int],
        NonTensorStack("a", "b"),
        [3],
        {},
        ["x: NonTensorStack of batch size [2]: the batch size is [3], here [2]"],
    ),
    (
        PerElement[int],
        NonTensorStack("a", "b"),
        [2],
        {},
        ["x[0]: str 'a': input should be a valid integer", "x[1]: str 'b': input should be a valid integer"],
    ),
    (PerElement[int], [["a"], [1]], [2, 1], {}, ["x[0][0]: str 'a': input should be a valid integer"]),
    (
        PerElement[int],
        np.array([1.5, 2.0]),
        [2],
        {"autocast": True},
        ["x[0]: float 1.5: input should be a valid integer, got a number with a fractional part"],
    ),
    (
        int,
        z(1),
        [],
        {},
        ['x: tensor float32 [1]: take the number with `.item()`, or declare a tensor: `Float32[Tensor, "..."]`'],
    ),
    (int, z(2), [], {"autocast": True}, ['x: tensor float32 [2]: declare a tensor: `Float32[Tensor, "..."]`']),
    (
        str,
        ["a", "b"],
        [2],
        {},
        ["x: list ['a', 'b']: input should be a valid string; for one value per element declare `PerElement[str]`"],
    ),
    (dict[str, int], {"a": "b"}, [], {}, ["x.a: str 'b': input should be a valid integer"]),
    (list[str], [["b"]], [], {}, ["x[0]: list ['b']: input should be a valid string"]),
    (int, None, [], {}, ["x: None: input should be a valid integer"]),
    (PerElement[int], None, [2], {}, ["x: None: pass a value, or declare `PerElement[int] | None`"]),
    # ---- containers and interfaces
    (TensorDict, {"a": 1}, [2], {}, ["x: dict {'a': 1}: pass a container: `TensorDict(value, batch_size=[2])`"]),
    (
        TensorDict,
        TensorDict(batch_size=[3]),
        [2],
        {},
        ["x: TensorDict of batch size [3]: the batch size is [2], here [3]"],
    ),
    (
        TensorDict,
        Point(y=z(2)),
        [2],
        {},
        ["x: Point of batch size [2]: convert it with `.to_tensordict()`, or declare `Point`"],
    ),
    (Point, {"y": 3}, [2], {}, ["x: dict {'y': 3}: build it: `Point(**value)`"]),
    (
        Point,
        TensorDict(y=z(2), batch_size=[2]),
        [2],
        {},
        ["x: TensorDict of batch size [2]: wrap it: `Point.from_tensordict(value)`"],
    ),
    (Point, Point(y=z(3)), [2], {}, ["x: Point of batch size [3]: the batch size is [2], here [3]"]),
    (Point, 3, [2], {}, ["x: int 3: pass a `Point`"]),
    (Point, None, [2], {}, ["x: None: pass a value, or declare `Point | None`"]),
    (Point, {"y": "a"}, [2], {"autocast": True}, ["x.y: str 'a': pass a tensor, or declare `str` for a Python value"]),
    (Point, {"y": z(3)}, [2], {"autocast": True}, ["x.y: float32 [3]: the batch size is [2], here [3]"]),
    (Runs, 3, [2], {}, ["x: int 3: pass a Runs; this one has no run"]),
    (HasY, Point(y=z(3)), [2], {}, ["x: Point of batch size [3]: the batch size is [2], here [3]"]),
    (Parent, 3, [2], {}, ["x: int 3: pass a Parent; this one has no parent Parent"]),
]


@pytest.mark.parametrize(("annotation", "value", "batch", "options", "expected"), CASES, ids=stable)
def test_what_a_rule_says(annotation, value, batch, options, expected):
    """A wrong value gets exactly its problems, with the declaration as it is printed."""
    own = schema_for(x=annotation)
    found = misfits(own, {"x": value}, batch_size=batch, options=Options(**options))
    assert [f"{problem.path}: {problem.given}: {problem.hint}" for problem in found] == expected
    assert {problem.declared for problem in found if "." not in problem.path[1:]} <= {str(own["x"])}
