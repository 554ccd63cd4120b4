"""The public functions; their implementations are imported at the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .._flags import flags
from ..errors import MissingExtraError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


@flags
def batches(
    cls: type[T],
    *,
    batch_size: Sequence[int] | int | SearchStrategy[Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    min_size: int = 1,
    max_size: int = 4,
    allow_nan: bool = False,
    allow_infinity: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> SearchStrategy[T]:
    """A hypothesis strategy for instances of a class: any instance that the declaration allows.

    Dims with the same name agree, expressions are satisfied, dtypes are in their family, numbers meet their
    constraints, optional fields may be None, Python values have their type. Failing examples shrink to few and small
    dims, and to zeros. Examples that a validator of the class refuses are discarded; if there are many, give strategies
    in `fields`.

    Args:
        cls: A typed class.
        batch_size: The batch size, or a strategy of batch sizes; by default up to two dims of 0 to 3.
        sizes: The sizes of some named dims.
        min_size: The smallest size of the other dims.
        max_size: The largest size of the other dims, unless an expression or a constraint needs more.
        allow_nan: Whether tensors without constraints may contain nan.
        allow_infinity: Whether they may contain infinities.
        fields: Strategies for some fields.

    Raises:
        MissingExtraError: if hypothesis is not installed.

    >>> from hypothesis import given, settings
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.testing import batches
    >>> from tensorclass.typing import Float32
    >>> class Image(TensorClass):
    ...     pixels: Float32[Tensor, "h w"]
    ...     coarse: Float32[Tensor, "h//2 w//2"] | None = None
    >>> @settings(max_examples=5)
    ... @given(batches(Image, batch_size=3))
    ... def test(image: Image) -> None:
    ...     assert image.batch_size == (3,)
    """
    try:
        strategies = import_module("._strategies", __package__)
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise MissingExtraError.of("testing.batches", "hypothesis", "testing") from None
    limits = strategies.Limits(min_size, max_size, sizes or {}, allow_nan, allow_infinity)
    found: SearchStrategy[T] = strategies.batches(cls, batch_size, limits, fields or {})
    return found


@flags
def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    check_device: bool = True,
) -> None:
    """Assert that two batches agree; the error reports every field that differs.

    The report has dtype and shape, the number of differing elements and the first of them, the largest absolute and
    relative errors, and the first batch element that differs.

    Args:
        actual: A container or a tensor.
        expected: An object of the same kind.
        rtol: The relative tolerance; by default that of `torch.testing.assert_close` for the dtype, 0 for integers.
        atol: The absolute tolerance; same default.
        equal_nan: Whether nan equals nan.
        check_device: Whether tensors must be on the same device.

    Raises:
        AssertionError: with the report.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.testing import assert_close
    >>> zeros = TensorDict(x=torch.zeros(4, 2), y=torch.zeros(4), batch_size=[4])
    >>> other = TensorDict(x=torch.zeros(4, 2), y=torch.tensor([0.0, 0.0, 0.5, 0.0]), batch_size=[4])
    >>> assert_close(other, zeros)
    Traceback (most recent call last):
    AssertionError: TensorDict: 1 of 2 fields differs
      y: float32 [4], 1 of 4 elements differs, first [2]: 0.5, expected 0; largest error 0.5 at [2], relative inf
      first element that differs: [2]
    """
    compare = import_module("._compare", __package__)
    lines = compare.report(actual, expected, compare.Tolerance(rtol, atol, equal_nan, check_device))
    if lines:
        raise AssertionError("\n".join(lines))


@flags
class Same:
    """The result of `same`: equal to every batch that agrees with the expected one.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.testing import Same, same
    >>> expected = same(TensorDict(a=torch.zeros(2)))
    >>> isinstance(expected, Same), expected == TensorDict(a=torch.ones(2))
    (True, False)
    """

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # equality is not an equivalence

    def __init__(self, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool) -> None:
        self.expected = expected
        self.tolerance: tuple[float | None, float | None, bool] = (rtol, atol, equal_nan)

    def __eq__(self, actual: object) -> bool:
        return not self.report(actual)

    def __repr__(self) -> str:
        return f"same({self.expected!r})"

    def report(self, actual: object) -> list[str]:
        """A description of the differences from the expected batch, in lines."""
        compare = import_module("._compare", __package__)
        lines: list[str] = compare.report(actual, self.expected, compare.Tolerance(*self.tolerance))
        return lines


@flags
def same(expected: Any, *, rtol: float | None = 0, atol: float | None = 0, equal_nan: bool = True) -> Any:
    """Wrap a batch for a comparison in an assertion: `assert model(batch) == same(expected)`.

    `batch == other` compares element by element. `batch == same(other)` is True or False, and the pytest plugin prints
    the report of `assert_close` if it is False.

    Args:
        expected: A container or a tensor.
        rtol: The relative tolerance; None for that of the dtype.
        atol: The absolute tolerance; same default.
        equal_nan: Whether nan equals nan.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.testing import same
    >>> TensorDict(x=torch.zeros(3)) == same(TensorDict(x=torch.zeros(3)))
    True
    """
    return Same(expected, rtol, atol, equal_nan)
