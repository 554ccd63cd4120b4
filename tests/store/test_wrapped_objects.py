"""A `NonTensorData` is one object for its batch size through every constructor and join, also around a list."""

from __future__ import annotations

import pytest
import tensordict
import torch

import tensorclass

LIBRARIES = [tensordict, tensorclass]


def _ways(lib):
    """Each way to make one entry of two wrapped objects."""
    data, stack, container = lib.NonTensorData, lib.NonTensorStack, lib.TensorDict
    return {
        "constructor": lambda a, b: stack(data(a), data(b)),
        "from_list": lambda a, b: stack.from_list([data(a), data(b)]),
        "torch.stack": lambda a, b: torch.stack([data(a), data(b)]),
        "stack": lambda a, b: lib.stack([data(a), data(b)], 0),
        "lazy_stack": lambda a, b: lib.lazy_stack([data(a), data(b)]),
        "maybe_dense_stack": lambda a, b: lib.maybe_dense_stack([data(a), data(b)]),
        "cat": lambda a, b: torch.cat([stack(data(a)), stack(data(b))]),
        "set": lambda a, b: container(batch_size=[2]).set("m", [data(a), data(b)]).get("m"),
        "container": lambda a, b: container({"m": [data(a), data(b)]}, batch_size=[2]).get("m"),
        "update": lambda a, b: container(batch_size=[2]).update({"m": [data(a), data(b)]}).get("m"),
        "from_dict": lambda a, b: container.from_dict({"m": [data(a), data(b)]}).get("m"),
        "stack of containers": lambda a, b: container.stack([container(m=data(a)), container(m=data(b))]).get("m"),
    }


OBJECTS = [
    ([1, 2], [3, 4]),
    ([1, 2], [3]),
    ([], [[1]]),
    (["a"], "b"),
    ([{"role": "user"}], [{"role": "user"}, {"role": "assistant"}]),
    ((1, 2), {"a": [1]}),
    (1, 2.5),
]


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("way", _ways(tensorclass))
@pytest.mark.parametrize("objects", OBJECTS, ids=repr)
def test_wrapped_objects_stay_objects(way, objects):
    """The entry has batch size [2] and the two objects, as in `tensordict`."""
    for lib in LIBRARIES:
        found = _ways(lib)[way](*objects)
        assert found.batch_size == torch.Size([2])
        assert found.tolist() == list(objects)


def test_several_dims():
    """Nested lists give dims, and wrapped objects inside of them none; wrapped batches give theirs."""
    for lib in LIBRARIES:
        data, stack = lib.NonTensorData, lib.NonTensorStack
        pairs = stack.from_list([[data([1]), data([2, 3])], [data([4]), data([])]])
        assert pairs.tolist() == [[[1], [2, 3]], [[4], []]]
        assert pairs.batch_size == (2, 2)
        assert stack.from_list([stack("a", "b"), stack("c", "d")]).batch_size == (2, 2)
        assert stack(stack("a", "b"), stack("c", "d"), stack_dim=1).tolist() == [["a", "c"], ["b", "d"]]
        assert stack.from_list([data([1], batch_size=[2]), data([2], batch_size=[2])]).tolist() == [
            [[1], [1]],
            [[2], [2]],
        ]
    with pytest.raises(IndexError, match="NonTensorStack"):
        tensorclass.NonTensorStack("a", "b", stack_dim=1)


def test_flatten():
    """`flatten` merges all dims by default, and for None."""
    for lib in LIBRARIES:
        stack = lib.NonTensorStack.from_list([["a", "b"], ["c", "d"]])
        assert stack.flatten(None, None).tolist() == ["a", "b", "c", "d"]
    assert tensorclass.NonTensorStack("a").flatten().tolist() == ["a"]


@pytest.mark.parametrize(
    ("index", "value", "expected"),
    [
        (0, "v", ["v", "b"]),
        (slice(0, 1), "v", ["v", "b"]),
        (slice(None), "v", ["v", "v"]),
        (-1, "wrapped", ["a", "wrapped"]),
    ],
)
def test_elements_are_written(index, value, expected):
    """An element of a stack is replaced by an index, and so are several."""
    for lib in LIBRARIES:
        for wrap in (lambda value: value, lib.NonTensorData):
            stack = lib.NonTensorStack("a", "b")
            stack[index] = wrap(value)
            assert stack.tolist() == expected


def test_elements_of_lists_are_written():
    """A wrapped list replaces one element; a list of another length is refused, and nothing is written."""
    stack = tensorclass.NonTensorStack("a", "b", "c")
    stack[0] = tensorclass.NonTensorData([1, 2])
    stack[1:] = ["x", tensorclass.NonTensorData(["y"])]
    assert stack.tolist() == [[1, 2], "x", ["y"]]
    with pytest.raises(ValueError, match="2 are expected"):
        stack[1:] = ["z"]
    assert stack.tolist() == [[1, 2], "x", ["y"]]
    data = tensorclass.TensorDict(m=stack, batch_size=[3])
    data.get("m")[2] = "w"
    assert data["m"] == [[1, 2], "x", "w"]
    data.get("m")[1:][0] = "v"
    assert data["m"] == [[1, 2], "v", "w"]


def test_lists_grow_by_wrapped_objects():
    """`append`, `insert` and `extend` take a wrapped list as one object."""
    stack = tensorclass.NonTensorStack("a")
    stack.append(tensorclass.NonTensorData([1, 2]))
    stack.extend([tensorclass.NonTensorData([3]), "b"])
    assert stack.tolist() == ["a", [1, 2], [3], "b"]
