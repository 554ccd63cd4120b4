"""Fields that hold a batch of distributions: `policy: Dist[Normal]`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import Self

from ...classes import TensorClass
from ...classes._facts import Recipe
from ...core import Classes, as_batch_size
from ...errors import SchemaError

D = TypeVar("D", bound=Distribution)
_DECLARED = Classes()
_KEPT_AS = {"probs": "logits", "covariance_matrix": "scale_tril", "precision_matrix": "scale_tril"}
"""Of parameters that exclude each other, the one that is stored; torch computes it from the others."""


class Dist(TensorClass, Generic[D]):
    """A batch of distributions as a field: `policy: Dist[Normal]`.

    The parameters are fields, so indexing, stacking, moving, saving and comparing treat them as tensors of the batch.
    `Dist[Categorical]` has `logits`, `Dist[MultivariateNormal]` has `loc` and `scale_tril`. The field accepts a
    distribution of this class whose batch shape begins with the batch size.

    >>> import torch
    >>> from torch import Tensor
    >>> from torch.distributions import Normal
    >>> from tensorclass import TensorClass
    >>> from tensorclass.nn import Dist
    >>> from tensorclass.typing import Float32
    >>> class Step(TensorClass):
    ...     action: Float32[Tensor, "2"]
    ...     policy: Dist[Normal]
    >>> step = Step(action=torch.zeros(4, 2), policy=Normal(torch.zeros(4, 2), torch.ones(4, 2)))
    >>> step[:3].policy.log_prob(step[:3].action).shape, step.policy.loc.shape
    (torch.Size([3, 2]), torch.Size([4, 2]))
    """

    def __class_getitem__(cls, kind: Any) -> Any:
        """The class that holds the parameters of a distribution class.

        Raises:
            SchemaError: for anything but a distribution class that its parameters define.
        """
        return _DECLARED.get(kind, lambda: _declare(kind))

    @classmethod
    def of(cls, dist: D, batch_size: Sequence[int] | int | None = None) -> Dist[D]:
        """Take the parameters of a distribution.

        Args:
            dist: an instance of a class of `torch.distributions`, or of another one that its parameters define.
            batch_size: the leading dims of its batch shape that are batch dims; by default all.

        Raises:
            SchemaError: for a distribution that has more than its parameters, and for another batch shape.

        >>> import torch
        >>> from torch.distributions import Categorical
        >>> from tensorclass.nn import Dist
        >>> Dist.of(Categorical(logits=torch.zeros(3, 4))).entropy()
        tensor([1.3863, 1.3863, 1.3863])
        """
        size = dist.batch_shape if batch_size is None else as_batch_size(batch_size)
        found: Dist[D] = Dist.__class_getitem__(type(dist))._from_object(dist, size)
        return found

    @classmethod
    def _from_object(cls, dist: Any, size: torch.Size) -> Self:
        """The parameters of a distribution; its batch shape begins with a batch size."""
        kind: type[Distribution] = cls.dist_class  # type: ignore[attr-defined]  # of the class with parameters
        if type(dist) is not kind:
            given = f"an object of type {type(dist).__name__}"
            raise _dist_error(
                f"Dist[{kind.__name__}]", given, f"pass a `{kind.__name__}`, or declare `Dist` of its class"
            )
        if dist.batch_shape[: len(size)] != size:
            given = f"a {kind.__name__} of batch shape {list(dist.batch_shape)}"
            raise _dist_error(
                f"Dist[{kind.__name__}]", given, f"its batch shape begins with the batch size {list(size)}"
            )
        for name, default in _constants(kind).items():
            given = getattr(dist, name, getattr(dist, f"_{name}", default))
            if given != default:
                text = "only the parameters are stored; declare a field for it, and build the distribution from them"
                raise _dist_error(f"Dist[{kind.__name__}]", f"{name}={given!r:.40}", text)
        return cls(**{name: getattr(dist, name) for name in parameters_of(kind)}, batch_size=size)

    @property
    def dist(self) -> D:
        """The distribution of torch over the parameters, made at each access."""
        kind: Any = self.dist_class  # type: ignore[attr-defined]  # of the class with parameters
        found: D = kind(**{name: getattr(self, name) for name in parameters_of(kind)})
        return found

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of values, with the shape of the batch of distributions."""
        return self.dist.log_prob(value)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # of rows; here of the distributions
        """Values drawn from the distributions, without gradients; `sample_shape` comes first."""
        return self.dist.sample(torch.Size(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values drawn from the distributions, with gradients of the parameters."""
        return self.dist.rsample(torch.Size(sample_shape))

    def entropy(self) -> Tensor:
        """The entropy of each distribution, in nats."""
        found: Tensor = self.dist.entropy()
        return found


def parameters_of(kind: type[Distribution]) -> tuple[str, ...]:
    """The names of the parameters that a distribution class is stored as."""
    names = getattr(kind, "arg_constraints", {})
    if not isinstance(names, dict):  # a property of the instance, as for `Uniform`
        names = [name for name in inspect.signature(kind).parameters if name != "validate_args"]
    return tuple(dict.fromkeys(_KEPT_AS.get(name, name) for name in names))


def _constants(kind: type[Distribution]) -> dict[str, Any]:
    """The other arguments of a distribution class, with their defaults."""
    arguments = inspect.signature(kind).parameters.values()
    known = {*parameters_of(kind), *_KEPT_AS, "validate_args"}
    return {one.name: one.default for one in arguments if one.name not in known}


def _declare(kind: Any) -> Any:
    """The class of `Dist[...]`, whose fields are the parameters of a distribution."""
    if not (isinstance(kind, type) and issubclass(kind, Distribution)):
        raise _dist_error("Dist", f"{kind!r:.80}", "write a distribution class in the brackets: `Dist[Normal]`")
    more = [name for name, default in _constants(kind).items() if default is inspect.Parameter.empty]
    if more or not parameters_of(kind):
        given = f"{kind.__name__}({', '.join(inspect.signature(kind).parameters)})"
        raise _dist_error(
            "Dist", given, "its parameters don't define it; declare them as fields, and build it from them"
        )
    space = {
        "__annotations__": dict.fromkeys(parameters_of(kind), Tensor),
        "__module__": __name__,
        "__doc__": f"The parameters of a batch of {kind.__name__} distributions.",
        "__tensorclass_recipe__": Recipe(Dist.__class_getitem__, (kind,)),
        "dist_class": kind,
    }
    return types.new_class(f"Dist[{kind.__name__}]", (Dist,), {}, lambda ns: ns.update(space))


def _dist_error(declared: str, given: str, hint: str) -> SchemaError:
    return SchemaError(f"{declared} got {given}: {hint}")
