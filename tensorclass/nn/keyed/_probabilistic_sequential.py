"""`ProbabilisticTensorDictSequential`: keyed modules in order, with access to their distributions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..._flags import flags
from ...core import TensorCollection
from ...errors import ArgumentError, ModuleError, UnknownFieldError
from ..distributions import CompositeDistribution
from ..distributions._composite import suffixed
from ..distributions._interaction import INTERACTION, InteractionType, interaction_type, set_interaction_type
from ..parts._dispatch import dispatch
from ..parts._keyed_base import Keys
from ._module import Inplace
from ._probabilistic import ProbabilisticTensorDictModule
from ._sequential import TensorDictSequential, called_with, direct, given_options, globally_hooked, step


@flags
class ProbabilisticTensorDictSequential(TensorDictSequential):
    """A sequence of keyed modules, some of them probabilistic, that can return their distributions.

    Args:
        *modules: As in `TensorDictSequential`; usually the last one is probabilistic.
        partial_tolerant: Skip modules with missing in keys.
        return_composite: The result of `get_dist`: True for one `CompositeDistribution` of all probabilistic modules,
            False for the distribution of the last module. None means True if there are several probabilistic modules,
            or if the last module is not probabilistic.
        selected_out_keys: The out keys to keep.
        inplace: Where the out keys are written, as in `TensorDictSequential`.

    Raises:
        ModuleError: if two modules would write the same log-probability key, so that the first value would be lost.
        TypeError: with `return_composite=False`, if the last module is not probabilistic.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import (
    ...     ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule,
    ... )
    >>> policy = ProbabilisticTensorDictSequential(
    ...     TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["loc"]),
    ...     ProbabilisticTensorDictModule(
    ...         ["loc"], ["y"], distribution_class=torch.distributions.Normal, distribution_kwargs={"scale": 1.0}
    ...     ),
    ... )
    >>> data = policy(TensorDict(x=torch.zeros(3), batch_size=[3]))
    >>> data["y"], policy.log_prob(data)
    (tensor([1., 1., 1.]), tensor([-0.9189, -0.9189, -0.9189]))
    """

    def __init__(
        self,
        *modules: Any,
        partial_tolerant: bool = False,
        return_composite: bool | None = None,
        selected_out_keys: Iterable[Any] | None = None,
        inplace: Inplace = None,
    ) -> None:
        kept = given_options(selected_out_keys=selected_out_keys, inplace=inplace)
        super().__init__(*modules, **given_options(partial_tolerant=partial_tolerant or None), **kept)
        self._given_composite = return_composite
        last = self._children()[-1] if len(self) else None
        probabilistic = isinstance(last, _KINDS)
        if return_composite is False and not probabilistic:
            raise ArgumentError(
                "return_composite=False gives the distribution of the last module, which is a "
                f"{type(last).__name__} and not probabilistic; leave it out, or end with a probabilistic module"
            )
        several = sum(isinstance(module, _KINDS) for module in self) > 1
        composite = (several or not probabilistic) if return_composite is None else return_composite
        self.return_composite: bool = composite
        self._refuse_lost_scores()

    def _refuse_lost_scores(self) -> None:
        keys = [key for module in self._drawing() if module.return_log_prob for key in module._scores]
        lost = [key for key in keys if keys.count(key) > 1]
        if lost:
            raise ModuleError(
                f"several modules write the log-probability {lost[0]!r}, and the last would overwrite the others; give "
                "each its own `log_prob_key`"
            )

    def with_modules(self, modules: Sequence[Any] | Mapping[str, Any]) -> Any:
        """Build a sequence of the same class and options from other modules; without a probabilistic one, a plain one.

        Args:
            modules: The modules, or a dict from their names.
        """
        parts = list(modules.values() if isinstance(modules, Mapping) else modules)
        if not any(isinstance(module, _KINDS) for module in parts):
            return called_with(TensorDictSequential, modules, self._options())
        given = self._given_composite if isinstance(parts[-1], _KINDS) else None
        return called_with(type(self), modules, self._options() | given_options(return_composite=given))

    # ---- keys of the probabilistic modules -----------------------------------------------------------------------

    def _drawing(self) -> Iterator[ProbabilisticTensorDictModule]:
        """The probabilistic modules in order, including those of nested sequences."""
        for module in self._children():
            if isinstance(module, ProbabilisticTensorDictModule):
                yield module
            elif isinstance(module, ProbabilisticTensorDictSequential):
                yield from module._drawing()

    def _backwards(self) -> list[ProbabilisticTensorDictModule]:
        return list(self._drawing())[::-1]

    def _last(self) -> ProbabilisticTensorDictModule:
        found = self._backwards()
        if not found:
            raise ModuleError(f"{type(self).__name__} has no probabilistic module, so it has no distribution")
        return found[0]

    @property
    def dist_params_keys(self) -> Keys:
        """The keys of the parameters of all distributions, those of the last module first."""
        return [key for module in self._backwards() for key in module.dist_params_keys]

    @property
    def dist_sample_keys(self) -> Keys:
        """The keys of all values, those of the last module first."""
        return [key for module in self._backwards() for key in module.dist_sample_keys]

    @property
    def log_prob_keys(self) -> Keys:
        """The keys of all log-probabilities, those of the last module first."""
        return [key for module in self._backwards() for key in module.log_prob_keys]

    @property
    def log_prob_key(self) -> Any:
        """The key of the log-probability, if there is only one.

        Raises:
            AttributeError: if there is none, or if there are several.
        """
        keys = self.log_prob_keys
        if len(keys) != 1:
            raise UnknownFieldError(f"{type(self).__name__} has the log-probability keys {keys}; use `log_prob_keys`")
        return keys[0]

    @property
    def num_samples(self) -> tuple[int, ...]:
        """The leading dims that the modules add to the output."""
        return tuple(n for module in self._backwards() for n in module.num_samples or ())

    @property
    def default_interaction_type(self) -> InteractionType | None:
        """The default of the last probabilistic module; without one, the type of `set_interaction_type`."""
        last = next(reversed(self._children()), None)
        found = [last] if isinstance(last, ProbabilisticTensorDictModule) else self._backwards()
        return found[0].default_interaction_type if found else interaction_type()

    @property
    def det_part(self) -> TensorDictSequential:
        """The modules before the last one, which compute its parameters."""
        return TensorDictSequential(*self._children()[:-1])

    # ---- distributions -------------------------------------------------------------------------------------------

    def get_dist_params(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run all modules but the last, and return the container with the parameters of its distribution.

        Args:
            tensordict: The input; the results are written to it.
            tensordict_out: A container to write to instead; it gets the out keys of these modules.
            **kwargs: Passed to the modules that are not probabilistic.
        """
        data = tensordict if tensordict_out is None else tensordict.copy()
        data = self._run_to_parameters(data, kwargs, False)
        if tensordict_out is None:
            return data
        written = [key for module in self._children()[:-1] for key in getattr(module, "out_keys", ())]
        return tensordict_out.update(data.select(*written, strict=False))

    def _run_to_parameters(self, data: Any, kwargs: dict[str, Any], given: bool) -> Any:
        """Run all modules but the last.

        Given values are kept, and the modules that read them are conditional on them.
        """
        with set_interaction_type(interaction_type() or self.default_interaction_type):
            for module in self._children()[:-1]:
                data = data if given and _is_given(module, data) else _run(module, data, kwargs)
        return data

    def draw_value(self, dist: Any) -> Any:
        """Draw a value as the last probabilistic module does, from a distribution like its own."""
        return self._last().draw_value(dist)

    def build_dist_from_params(self, tensordict: Any) -> Any:
        """The distribution of the last probabilistic module, from a container that holds its parameters.

        Raises:
            ModuleError: (a `RuntimeError`) if there is no probabilistic module.
        """
        return self._last().get_dist(tensordict)

    def get_dist(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """The distribution from which the sequence draws.

        With `return_composite`, a `CompositeDistribution` over all probabilistic modules, each under its sample key.
        Modules draw values that later modules read, so the distributions of later modules are conditional on them. The
        input is not changed then.

        Args:
            tensordict: The input.
            tensordict_out: Without `return_composite`, the container for intermediate results; by default the input.
            **kwargs: Passed to the modules that are not probabilistic.

        Raises:
            ModuleError: (a `RuntimeError`) if there is no probabilistic module.
        """
        self._last()
        if not self.return_composite:
            last: Any = self._children()[-1]
            params = self.get_dist_params(tensordict, tensordict_out, **kwargs)
            if tensordict_out is not None:  # the distribution may read the input as well
                params = tensordict.copy().update(params)
            nested = isinstance(last, ProbabilisticTensorDictSequential)
            return last.get_dist(params) if nested else self.build_dist_from_params(params)
        return self._composite(tensordict, kwargs, False)

    def _composite(self, tensordict: Any, kwargs: dict[str, Any], given: bool) -> CompositeDistribution:
        found: dict[Any, Any] = {}
        data = self._collect(tensordict.copy(), found, kwargs, given)
        return CompositeDistribution.from_distributions(data, found)

    def _collect(self, data: Any, found: dict[Any, Any], kwargs: dict[str, Any], given: bool) -> Any:
        """Run the modules, and collect every distribution under the key of its value."""
        modules = self._children()
        for index, module in enumerate(modules):
            if isinstance(module, ProbabilisticTensorDictSequential):
                data = module._collect(data, found, kwargs, given)
                continue
            if isinstance(module, ProbabilisticTensorDictModule):
                dist = module.get_dist(data)
                composite = isinstance(dist, CompositeDistribution)
                found.update(dist.dists if composite else {module.dist_sample_keys[0]: dist})
                if index == len(modules) - 1 or (given and _is_given(module, data)):
                    continue
            data = _run(module, data, kwargs)
        return data

    def log_prob(self, tensordict: Any, tensordict_out: Any = None, *, dist: Any = None, **kwargs: Any) -> Any:
        """The log-probability of the values in a container, each conditional on the values before it.

        Args:
            tensordict: The input and the values.
            tensordict_out: A container for intermediate results; if given, the input is not changed.
            dist: The distribution; by default it is computed from the input and the values.
            **kwargs: Passed to the modules that are not probabilistic.

        Returns:
            For the last module only, a tensor; for several modules, a container with one entry per value, or their sum
            under `set_composite_lp_aggregate(True)`.
        """
        self._last()
        data = tensordict if tensordict_out is None else tensordict.copy()
        if dist is None and self._overrides("get_dist", "get_dist_params", "build_dist_from_params"):
            dist = self.get_dist(data, **kwargs)
        if self.return_composite:
            whole = self._composite(data, kwargs, True) if dist is None else dist
            return self._renamed(whole.log_prob(data))
        last: Any = self._children()[-1]
        if dist is None:
            return last.log_prob(self._run_to_parameters(data, kwargs, True))
        return last.log_prob(data, dist=dist)

    def _renamed(self, scores: Any) -> Any:
        """Log-probabilities under the keys of the modules."""
        for module in self._drawing() if isinstance(scores, TensorCollection) else ():
            found: Any = scores
            for sample, key in zip(module.dist_sample_keys, module.log_prob_keys, strict=False):
                given = suffixed(sample, "_log_prob")
                if given != key and given in found.keys(True):
                    found.rename_key_(given, key)
        return scores

    def _overrides(self, *names: str) -> bool:
        """Whether a subclass overrides how the distribution is built."""
        return any(
            [getattr(type(self), name) is not getattr(ProbabilisticTensorDictSequential, name) for name in names]
        )

    # ---- running -------------------------------------------------------------------------------------------------

    _direct = True

    @dispatch(auto_batch_size=False)
    def forward(
        self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool | None = None, **kwargs: Any
    ) -> Any:
        """Run the modules in order, and return the container with their results.

        If earlier modules already write the values of the last module, the last module does not draw again.

        Args:
            tensordict: The input; or tensors, which are matched to the in keys.
            tensordict_out: The container for the out keys; the input is then not changed.
            **kwargs: Passed to the modules that are not probabilistic.
        """
        return self._run(tensordict, tensordict_out, {"_requires_sample": _requires_sample, **kwargs})

    def _run(self, data: Any, out: Any = None, kwargs: Mapping[str, Any] | None = None) -> Any:
        options = dict(kwargs or {})
        if self.return_composite or INTERACTION.get() is not None:
            return self._perform(data, out, options)
        entered = INTERACTION.enter(self.default_interaction_type)
        try:
            return self._perform(data, out, options)
        finally:
            INTERACTION.leave(entered)

    def _chain(self, data: Any, options: dict[str, Any]) -> Any:
        draws = options.pop("_requires_sample", None)
        *before, last = self._children()
        plain = not (options or self.partial_tolerant or globally_hooked())
        if self.return_composite or type(self).get_dist_params is ProbabilisticTensorDictSequential.get_dist_params:
            for module in before:
                data = module._run(data) if plain and direct(module) else self._pass(module, data, options)
        else:
            data = self.get_dist_params(data, **options)
        if isinstance(last, ProbabilisticTensorDictModule):
            options = {"_requires_sample": not _are_written(last._samples, before) if draws is None else draws}
        return last._run(data, None, options) if plain and direct(last) else self._pass(last, data, options)

    def _pass(self, module: Any, data: Any, options: dict[str, Any]) -> Any:
        there = data.keys(True) if self.partial_tolerant else ()
        if self.partial_tolerant and not all(key in there for key in module.in_keys):
            return self._partial(module, data)
        return _run(module, data, options)


_KINDS = (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential)


def _are_written(samples: Keys, modules: list[Any]) -> bool:
    """Whether modules write all values of a later one."""
    left = [*samples]
    for module in modules:
        for key in module.out_keys:
            if key in left:
                left.remove(key)
    return not left and bool(samples)


def _is_given(module: Any, data: Any) -> bool:
    """Whether a container holds the values that a module would draw."""
    there = data.keys(True)
    return isinstance(module, _KINDS) and all(key in there for key in module.dist_sample_keys)


def _run(module: Any, data: Any, options: dict[str, Any]) -> Any:
    """Run one module. Keyword arguments of the call are passed unless it is probabilistic."""
    if isinstance(module, ProbabilisticTensorDictModule) and "_requires_sample" not in options:
        options = {}
    if direct(module) and not globally_hooked():
        return module._run(data, None, options)
    return module(data, **options) if options else step(module, data)
