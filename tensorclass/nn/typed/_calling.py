"""`stage(...)` and `sample(...)`: the stages of a pipeline, written as the calls that they stand for.

For type checkers a stage is the value that it returns, as `Digits.image` is a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypedDict, TypeVar, overload

import torch
from torch import Tensor, nn
from typing_extensions import ParamSpec, Unpack

from ..._flags import flags
from ...errors import BuildError
from ..distributions._interaction import InteractionType
from ..parts._stage import TensorClassModule
from ..parts._unnamed import StageCall

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
R = TypeVar("R")
P = ParamSpec("P")


class NamedReference(Protocol):
    """A reference to a field in stubs with strict keys: a tensor with its name, which no function returns."""

    def __field__(self) -> object:
        """The name."""


N = TypeVar("N", bound=NamedReference)
M = TypeVar("M", bound="tuple[NamedReference | None, ...]")
Device = torch.device | str | int | None


class StageOptions(TypedDict, total=False):
    """The options of a stage that don't depend on the type of its result."""

    returns: object
    update: bool
    device: Device
    checkpoint: bool


@overload
def stage(f: Callable[[A], R], a: A, /, *, out: R | None = ..., **options: Unpack[StageOptions]) -> R: ...
@overload
def stage(f: Callable[[A, B], R], a: A, b: B, /, *, out: R | None = ..., **options: Unpack[StageOptions]) -> R: ...
@overload
def stage(
    f: Callable[[A, B, C], R], a: A, b: B, c: C, /, *, out: R | None = ..., **options: Unpack[StageOptions]
) -> R: ...
@overload
def stage(
    f: Callable[[A, B, C, D], R], a: A, b: B, c: C, d: D, /, *, out: R | None = ..., **options: Unpack[StageOptions]
) -> R: ...
@overload
def stage(
    f: Callable[[A, B, C, D, E], R],
    a: A,
    b: B,
    c: C,
    d: D,
    e: E,
    /,
    *,
    out: R | None = ...,
    **options: Unpack[StageOptions],
) -> R: ...
@overload
def stage(
    f: Callable[..., R],
    /,
    *,
    out: R | None = ...,
    returns: object = ...,
    update: bool = ...,
    device: Device = ...,
    checkpoint: bool = ...,
    **inputs_by_parameter: Any,
) -> R: ...
@overload
def stage(
    f: Callable[..., R],
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    e: Any,
    g: Any,
    /,
    *more: Any,
    out: R | None = ...,
    **options: Unpack[StageOptions],
) -> R: ...
@overload
def stage(f: Callable[[A], Tensor], a: A, /, *, out: N, **options: Unpack[StageOptions]) -> N: ...
@overload
def stage(f: Callable[[A, B], Tensor], a: A, b: B, /, *, out: N, **options: Unpack[StageOptions]) -> N: ...
@overload
def stage(f: Callable[[A, B, C], Tensor], a: A, b: B, c: C, /, *, out: N, **options: Unpack[StageOptions]) -> N: ...
@overload
def stage(
    f: Callable[[A, B, C, D], Tensor], a: A, b: B, c: C, d: D, /, *, out: N, **options: Unpack[StageOptions]
) -> N: ...
@overload
def stage(
    f: Callable[[A, B, C, D, E], Tensor], a: A, b: B, c: C, d: D, e: E, /, *, out: N, **options: Unpack[StageOptions]
) -> N: ...
@overload
def stage(f: Callable[..., Tensor], /, *, out: N, **inputs_by_parameter: Any) -> N: ...
@overload
def stage(f: Callable[..., tuple[Tensor, ...]], /, *inputs: Any, out: M, **inputs_by_parameter: Any) -> M: ...
@overload
def stage(f: Callable[P, R], /, *inputs: P.args, **inputs_by_parameter: P.kwargs) -> R: ...
@overload
def stage(
    f: nn.Module,
    /,
    *inputs: Any,
    out: Any = ...,
    returns: object = ...,
    update: bool = ...,
    device: Device = ...,
    checkpoint: bool = ...,
    **inputs_by_parameter: Any,
) -> Any: ...
@flags  # type: ignore[misc]  # a callable may have parameters with the names of options
def stage(
    f: Callable[..., Any],
    /,
    *inputs: Any,
    out: Any = None,
    returns: Any = None,
    update: bool = False,
    device: Device = None,
    checkpoint: bool = False,
    **inputs_by_parameter: Any,
) -> Any:
    """Make a stage of a pipeline: a callable, where its arguments come from, and where its results go.

    Args:
        f: An `nn.Module`, a function or any other callable. It gets tensors of shape `[*batch, *event]`.
        inputs: The arguments by position: fields (`Digits.image`), other stages (`h`), items of what they return
            (`h[0]`). Without any, the stage gets everything that the member before it wrote.
        out: The field of the result, or a tuple of fields; None in a tuple drops a result. Without it, the result has
            no field: later stages read it by the Python variable of the stage.
        returns: The declaration of a result without a field, such as `Float32[Tensor, "64"]`, or a tuple of them.
        update: Whether the stage may overwrite fields of the input or of earlier stages.
        device: The device of the module and of its inputs.
        checkpoint: Whether the backward pass reruns the module instead of keeping its activations.
        inputs_by_parameter: Further arguments, by the names of the parameters. Type checkers take arguments of a
            function all by position or all by name, if the stage has other options too.

    Returns:
        The stage. Type checkers see the value that it returns.

    Raises:
        BuildError: for `out=` together with `returns=`, and for a module that names its fields already.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.nn import TensorClassSequential, stage
    >>> from tensorclass.typing import Float32, Int64
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "64"]
    >>> class Prediction(TensorClass):
    ...     logits: Float32[Tensor, "10"]
    ...     digit: Int64[Tensor, ""]
    >>> classifier = TensorClassSequential[Digits, Prediction](
    ...     encoder=stage(nn.Linear(64, 32), Digits.image),
    ...     head=stage(nn.Linear(32, 10), out=Prediction.logits),
    ...     decide=stage(lambda z: z.argmax(-1), out=Prediction.digit),
    ... )
    >>> classifier(Digits(torch.zeros(5, 64))).digit.shape
    torch.Size([5])
    """
    if isinstance(f, TensorClassModule):
        raise BuildError("got a TensorClassModule, which names its fields already; list it as it is")
    if out is not None and returns is not None:
        raise BuildError("`out=` names a field, whose class declares the result; leave `returns=` out")
    options = {"update": update, "device": device, "checkpoint": checkpoint}
    return StageCall(f, inputs, inputs_by_parameter, out, returns, options)


def sample(
    distribution: Callable[..., Any],
    /,
    *parameters: Any,
    out: Any = None,
    log_prob: Any = None,
    kind: InteractionType | str = InteractionType.DETERMINISTIC,
    generator: torch.Generator | int | None = None,
    **by_parameter: Any,
) -> Any:
    """Make a stage that draws a value of a distribution.

    The pipeline then has `get_dist` and `log_prob`.

    Args:
        distribution: A distribution class, a callable that makes one, or a stage that returns one.
        parameters: The parameters in the order of the distribution's signature: fields, stages, items of what they
            return. Without any, everything that the member before it wrote.
        out: The field of the value; without it, later stages read it by the Python variable of the stage.
        log_prob: The field of the log-probability; without it, it is not computed.
        kind: The interaction type outside `set_interaction_type`.
        generator: A `torch.Generator` or a seed; None uses the global generator.
        by_parameter: Further parameters, by name.

    Returns:
        The stage. Type checkers see a value of any type.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.nn import NormalParamExtractor, TensorClassSequential, sample, stage
    >>> from tensorclass.typing import Float32
    >>> class State(TensorClass):
    ...     x: Float32[Tensor, "4"]
    >>> class Act(TensorClass):
    ...     action: Float32[Tensor, "2"]
    >>> policy = TensorClassSequential[State, Act](
    ...     net=stage(nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()), State.x),
    ...     act=sample(torch.distributions.Normal, out=Act.action),
    ... )
    >>> policy.get_dist(State(torch.zeros(3, 4)), "act")
    Normal(loc: torch.Size([3, 2]), scale: torch.Size([3, 2]))
    """
    sampling = {"log_prob_field": log_prob, "default_interaction_type": kind, "generator": generator}
    return StageCall(distribution, parameters, by_parameter, out, None, {}, sampling)
