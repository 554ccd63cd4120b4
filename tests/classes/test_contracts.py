"""`@checked` compares arguments and results with their annotations; dims have one scope for each call."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jaxtyping
import pytest
import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass import Ragged, TensorClass, TensorDict, checked, tensorclass
from tensorclass.errors import ArgumentError, SchemaError
from tensorclass.typing import Float, Float32, Int64, Shaped

CHECKER = "beartype"


class Step(TensorClass):
    reward: Float32[Tensor, ""]

    @checked
    def shifted(self, by: Shaped[Self, "b"], other: Step | None = None) -> Shaped[Self, "b"]:
        return self + by

    @checked
    @classmethod
    def first(cls, steps: Shaped[Step, "b"]) -> Shaped[Step, ""]:
        return steps[0]

    @checked
    @staticmethod
    def last(steps: Shaped[Step, "b"]) -> Shaped[Step, ""]:
        return steps[-1]


class Scored(Step):
    score: Float32[Tensor, ""]


@tensorclass(validate="off")
class Loose:
    x: Float32[Tensor, ""]


def steps(*sizes: int) -> Step:
    """A batch of a size."""
    return Step(torch.zeros(sizes))


@checked
def advantage(steps: Shaped[Step, "t b"], last: Shaped[Step, "b"]) -> Shaped[Step, "t b"]:
    """A function over two batches."""
    return steps + last


T = TypeVar("T", bound=Step)


@checked
def many(
    x: Shaped[Step, "*b t"],
    /,
    y: Float[Tensor, "*b t-1 4"],
    z: Shaped[Step, "t"] | None = None,
    *rest: Shaped[Step, "k"],
    each: Sequence[Shaped[Step, "t"]] = (),
    named: Mapping[str, Shaped[Step, "t"] | Int64[Tensor, "t"]] = {},  # never written to
    size: int = 0,
    **more: Shaped[Step, "n"],
) -> tuple[Shaped[Step, "*b"], int]:
    """A function with parameters of every kind."""
    return x[..., 0], size


def problem_of(function: Any, *args: Any, **kwargs: Any) -> tuple[str, str]:
    """The path and the hint of the only problem."""
    with pytest.raises(SchemaError) as raised:
        function(*args, **kwargs)
    (problem,) = raised.value.problems
    return problem.path, problem.hint


def test_one_scope_for_a_call():
    """Equal names have equal sizes among the arguments and the result, of batches and of tensors."""
    assert advantage(steps(5, 3), steps(3)).batch_size == (5, 3)
    path, hint = problem_of(advantage, steps(5, 3), steps(4))
    assert (path, hint) == ("last", "batch dim 0 is `b`: `b` is 3 (bound by `steps`), here 4")
    assert problem_of(advantage, steps(3), steps(3)) == ("steps", "2 batch dims are declared, 1 given")

    @checked
    def scaled(x: Shaped[Step, "b"], by: Float32[Tensor, "b 4"]) -> Float32[Tensor, "4 b"]:
        return by.mT if by.shape[0] < 9 else by

    assert scaled(steps(3), torch.zeros(3, 4)).shape == (4, 3)
    assert problem_of(scaled, steps(3), torch.zeros(2, 4))[0] == "by"
    assert problem_of(scaled, steps(9), torch.zeros(9, 4))[0] == "result"


def test_all_arguments_in_one_error():
    """The error names each argument that doesn't fit, with what was declared and what was given."""
    with pytest.raises(SchemaError) as raised:
        advantage(TensorDict(batch_size=[5, 3]), 3)
    assert [problem.path for problem in raised.value.problems] == ["steps", "last"]
    assert 'declared: Shaped[Step, "t b"]' in str(raised.value)
    assert "given:    TensorDict of batch size [5, 3]" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({}, ""),
        ({"z": steps(3), "each": [steps(3), steps(3)], "named": {"a": steps(3)}, "v": steps(8)}, ""),
        ({"y": torch.zeros(5, 2, 4, dtype=torch.float64)}, ""),
        ({"y": torch.zeros(5, 3, 4)}, "y"),
        ({"y": torch.zeros(5, 2, 4, dtype=torch.int64)}, "y"),
        ({"y": steps(5, 2, 4)}, "y"),
        ({"z": steps(2)}, "z"),
        ({"each": (steps(3), steps(4))}, "each[1]"),
        ({"named": {"a": torch.zeros(3, dtype=torch.int64)}}, ""),
        ({"named": {"a": torch.zeros(3)}}, "named['a']"),
        ({"v": steps(8), "w": steps(7)}, "more['w']"),
    ],
)
def test_parameters_of_every_kind(change: dict[str, Any], path: str):
    """Defaults, optional ones, unions, sequences, mappings and keywords are compared, in one scope."""
    given = {"y": torch.zeros(5, 2, 4), **change}
    if path:
        assert problem_of(many, steps(5, 3), **given)[0] == path
    else:
        assert many(steps(5, 3), **given, size=7)[1] == 7


def test_starred_arguments():
    """All values of `*args` have the same dims."""
    y = torch.zeros(5, 2, 4)
    assert many(steps(5, 3), y, None, steps(2), steps(2))[0].batch_size == (5,)
    assert problem_of(many, steps(5, 3), y, None, steps(2), steps(6))[0] == "rest[1]"


def test_methods():
    """`self` is not compared, `Self` is any typed class; class methods and static methods are checked too."""
    assert steps(3).shifted(steps(3), other=steps(2)).batch_size == (3,)
    assert problem_of(steps(3).shifted, steps(3, 2))[0] == "by"
    assert problem_of(steps(3).shifted, steps(3), 4)[0] == "other"
    assert Step.first(steps(3)).batch_size == Step.last(steps(3)).batch_size == ()
    assert problem_of(Step.first, steps())[0] == problem_of(Step.last, steps())[0] == "steps"


def test_subclasses_and_type_variables():
    """An instance of a child fits, one of the parent does not; a type variable is its bound."""

    @checked
    def scored(x: Scored, y: T) -> T:
        return y

    child = Scored(torch.zeros(2), torch.zeros(2))
    assert scored(child, child) is child
    assert problem_of(scored, steps(2), child) == ("x", "pass an instance of Scored")
    assert problem_of(scored, child, torch.zeros(2))[0] == "y"


def test_coroutines():
    """The result is compared when it is awaited."""

    @checked
    async def read(x: Shaped[Step, "b"], wrong: bool) -> Shaped[Step, "b"]:
        return x[None] if wrong else x

    assert inspect.iscoroutinefunction(read)
    assert asyncio.run(read(steps(3), wrong=False)).batch_size == (3,)
    assert problem_of(lambda: asyncio.run(read(steps(3), wrong=True)))[0] == "result"
    assert problem_of(lambda: asyncio.run(read(steps(), wrong=True)))[0] == "x"


def test_items_of_generators():
    """Each item is compared; names that only items have may differ between them, and sent values arrive."""

    @checked
    def parts(x: Shaped[Step, "b t"], size: int) -> Iterator[Shaped[Step, "n t"]]:
        sent = yield x[:size]
        assert sent == "more"
        yield x[size:]
        yield x[0]

    items: Any = parts(steps(5, 2), 3)
    assert inspect.isgeneratorfunction(parts)
    assert (next(items).batch_size, items.send("more").batch_size) == ((3, 2), (2, 2))
    assert problem_of(next, items)[0] == "item"

    @checked
    async def later(x: Shaped[Step, "b"]) -> AsyncIterator[Shaped[Step, ""]]:
        yield x[0]
        yield x

    async def read() -> None:
        async for _ in later(steps(3)):
            pass

    assert problem_of(lambda: asyncio.run(read()))[0] == "item"


def test_a_generator_is_closed():
    """Closing the checked generator closes the one of the program."""
    closed = []

    @checked
    def parts(x: Shaped[Step, "b"]) -> Iterator[Shaped[Step, ""]]:
        try:
            yield x[0]
        finally:
            closed.append(True)

    items = parts(steps(2))
    next(items)
    items.close()
    assert closed == [True]


def test_off():
    """A class with `validate="off"` is not compared."""

    @checked
    def loose(x: Shaped[Loose, "b t"], y: Tensor) -> Tensor:
        return y

    loose(Loose(torch.zeros(3)), torch.zeros(1))


@pytest.mark.slow
def test_off_in_optimised_programs():
    """Under `python -O` the decorator returns the function."""
    program = (
        "from tensorclass import checked\nfrom torch import Tensor\n"
        "def f(x: Tensor) -> Tensor:\n    return x\n"
        "print(checked(f) is f)"
    )
    answer = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "True"


def test_refused_declarations():
    """Nothing to check, no function, and contradictions are errors where the function is declared."""
    with pytest.raises(ArgumentError, match="no annotation says anything"):
        checked(lambda x: x)
    with pytest.raises(ArgumentError, match="checked takes a function"):
        checked(Step)
    with pytest.raises(SchemaError, match="a ragged parameter"):

        @checked
        def ragged(x: Ragged[Tensor, "t d"]) -> None: ...

    with pytest.raises(SchemaError, match=r"Shaped\[Step, 'b'\] for its batch dims"):
        Float32[Step, "b"]
    with pytest.raises(SchemaError, match="a shape is a string"):
        Shaped[Step, 3]


def test_signature_and_name_are_kept():
    """Tools see the function of the program; it can be pickled by name."""
    assert str(inspect.signature(advantage)).startswith("(steps: ")
    assert pickle.loads(pickle.dumps(advantage)) is advantage
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'last'"):
        advantage(steps(3, 2))


@pytest.mark.slow
def test_compiled_without_a_break():
    """A checked function is traced with the program around it."""
    run = torch.compile(lambda a, b: advantage(a, b).reward + 1, fullgraph=True, backend="eager")
    assert (run(steps(5, 3), steps(3)) == 1).all()


def test_jaxtyping_names():
    """Annotations of jaxtyping are read like those of the package."""

    @checked
    def total(x: jaxtyping.Shaped[Step, "t b"], y: jaxtyping.Float32[Tensor, "b"]) -> Tensor:
        return y

    total(steps(5, 3), torch.zeros(3))
    assert problem_of(total, steps(5, 3), torch.zeros(2))[0] == "y"


def test_beartype():
    """`jaxtyped` compares batches in one scope of dims, and dtype and shape of this package's tensor annotations."""

    def total(x: jaxtyping.Shaped[Step, "t b"], y: jaxtyping.Shaped[Step, "b"], z: Float32[Tensor, "4"]) -> None: ...

    total.__annotations__ = inspect.get_annotations(total, eval_str=True)
    run = jaxtyping.jaxtyped(total, typechecker=pytest.importorskip(CHECKER).beartype)
    run(steps(5, 3), steps(3), torch.zeros(4))
    wrong: list[tuple[Any, ...]] = [
        (steps(5, 3), steps(4), torch.zeros(4)),
        (steps(3), steps(3), torch.zeros(4)),
        (steps(5, 3), steps(3), torch.zeros(5)),
        (steps(5, 3), steps(3), torch.zeros(4).long()),
        (steps(5, 3), torch.zeros(3), torch.zeros(4)),
    ]
    for given in wrong:
        with pytest.raises(jaxtyping.TypeCheckError):
            run(*given)
