"""`check(model)`: the build check of a module from one typed class to another, without a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._flags import flags
from ..check._declared import Report
from ._calls import Probing
from ._sequential import TensorClassSequential


@flags
def check(
    model: Callable[[Any], Any], input: type | None = None, *, probe: Probing = True, values: bool = False
) -> Report:
    """Check a function or an `nn.Module` from one typed class to another, without putting it in a pipeline.

    Args:
        model: A callable whose argument and result are annotated with typed classes.
        input: The class of the batches that it will get; by default the annotated one.
        probe: As for `TensorClassSequential`.
        values: Whether to run a copy on real values too, as `TensorClassSequential.check` does.

    Returns:
        The report: `report.diagnostics` has warnings and notes.

    Raises:
        BuildError: has every finding in `.diagnostics`.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.nn import check
    >>> from tensorclass.typing import Float32
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "64"]
    >>> class Prediction(TensorClass):
    ...     logits: Float32[Tensor, "10"]
    >>> class Net(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.head = nn.Linear(64, 10)
    ...     def forward(self, digits: Digits) -> Prediction:
    ...         return Prediction(self.head(digits.image))
    >>> check(Net(), Digits).diagnostics
    ()
    """
    pipeline: TensorClassSequential[Any, Any] = TensorClassSequential(model, probe=probe)
    return (pipeline if input is None else pipeline.on(input)).check(values=values)
