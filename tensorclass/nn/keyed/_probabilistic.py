"""`ProbabilisticTensorDictModule`: builds a distribution from entries, and writes a value of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ..._flags import flags
from ...core import TensorCollection, as_ints, unravel_key_to_tuple
from ...errors import ArgumentError, MissingKeyError, ModuleError, did_you_mean
from ...store import TensorDict
from ..distributions import CompositeDistribution, Delta
from ..distributions._composite import LOG_PROB_KEY, suffixed
from ..distributions._draw import Generator, as_generator, build, draw
from ..distributions._interaction import AGGREGATE, InteractionType, composite_lp_aggregate
from ..parts._dispatch import dispatch
from ..parts._keyed_base import DROPPED, Keys, TensorDictModuleBase, as_keys, plain_tensors, read, write
from ..parts._skipping import SKIP, skips


@flags
class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Builds a distribution from entries of a container and writes a value of it.

    The kind of value is set by `set_interaction_type`, else by `default_interaction_type`. With `return_log_prob=True`,
    the log-probability of the value is written too, at `<key>_log_prob`. Under `set_composite_lp_aggregate(True)`,
    which must then be active when the module is built and when it is called, the sum is written at "sample_log_prob".

    Args:
        in_keys: The parameters: a key or a list of keys, whose last parts are the names of the arguments of the
            distribution, or a dict from the name of an argument to the key.
        out_keys: The keys of the values. By default the sample keys of a `CompositeDistribution`; the value of any
            other distribution is not written.
        default_interaction_type: The interaction type outside `set_interaction_type`.
        distribution_class: A distribution class, or a callable that makes one from the parameters by name.
        distribution_kwargs: Constant arguments. `TensorDictParams` are registered, and move with the module.
        return_log_prob: Whether to write the log-probability.
        log_prob_keys: The keys of the log-probabilities, one for each sample key.
        log_prob_key: The key of a single log-probability: that of the only sample key, or the sum.
        cache_dist: Without effect; accepted for compatibility.
        n_empirical_estimate: The number of samples that estimate a mean without a closed form.
        num_samples: The number of values per call, as leading dims of the result; None for one value without such a
            dim.
        generator: A `torch.Generator`, a seed, or the key of an entry that holds one of them. A seed in an entry is
            replaced by a new seed at each call. None uses the global generator.

    Raises:
        ModuleError: (a `ValueError` and `RuntimeError`) for keys that don't match each other or the aggregate flag.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import ProbabilisticTensorDictModule
    >>> module = ProbabilisticTensorDictModule(
    ...     in_keys=["loc", "scale"], out_keys=["action"], distribution_class=torch.distributions.Normal,
    ...     default_interaction_type="random", return_log_prob=True,
    ... )
    >>> data = module(TensorDict(loc=torch.zeros(3), scale=torch.ones(3), batch_size=[3]))
    >>> data["action"].shape, data["action_log_prob"].shape, module.out_keys
    (torch.Size([3]), torch.Size([3]), ['action', 'action_log_prob'])
    """

    def __init__(
        self,
        in_keys: Any,
        out_keys: Any = None,
        *,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: Callable[..., Any] = Delta,
        distribution_kwargs: Any = None,
        return_log_prob: bool = False,
        log_prob_keys: Any = None,
        log_prob_key: Any = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: int | torch.Size | None = None,
        generator: Generator = None,
    ) -> None:
        super().__init__()
        self.default_interaction_type: InteractionType = InteractionType(default_interaction_type)
        self.distribution_class = distribution_class
        keeps = isinstance(distribution_kwargs, nn.Module)  # its parameters are registered here
        self.distribution_kwargs: Any = distribution_kwargs if keeps else dict(distribution_kwargs or {})
        self.return_log_prob = return_log_prob
        self.n_empirical_estimate = n_empirical_estimate
        self.num_samples: torch.Size | None = None if num_samples is None else as_shape(num_samples)
        self.generator: Any = as_generator(generator)
        self._names, keys = _parameters(in_keys)
        self.in_keys = keys
        self._samples = self._sample_keys(out_keys)
        self._aggregate = composite_lp_aggregate()
        self._scores = self._score_keys(log_prob_keys, log_prob_key)
        self.out_keys: Keys = [*self._samples, *(self._scores if return_log_prob else ())]
        _refuse_overlap(self._samples, self._scores if return_log_prob else [])

    # ---- keys ----------------------------------------------------------------------------------------------------

    def _composite_keys(self) -> Keys | None:
        """The sample keys of a composite distribution with known components; None for any other distribution."""
        if self.distribution_class is not CompositeDistribution or "distribution_map" not in self.distribution_kwargs:
            return None
        renamed = self.distribution_kwargs.get("name_map") or {}
        names = as_keys(list(self.distribution_kwargs["distribution_map"]), "distribution_map")
        table = dict(zip(as_keys(list(renamed), "name_map"), as_keys(list(renamed.values()), "name_map"), strict=True))
        return [table.get(name, name) for name in names]

    def _sample_keys(self, out_keys: Any) -> Keys:
        found = self._composite_keys()
        if out_keys is None:
            return [DROPPED] if found is None else found
        keys = as_keys(out_keys, "out_keys", nested=True)
        if found is not None and set(keys) != set(found):
            raise ModuleError(
                f"out_keys are {keys}, and the composite distribution writes {found}; leave them out, or rename the "
                "samples with `name_map` in distribution_kwargs"
            )
        return keys

    def _score_keys(self, several: Any, one: Any) -> Keys:
        """The keys of the log-probabilities: one for each sample, or one for their sum."""
        if self._aggregate and several is not None:
            raise ModuleError("log_prob_keys under set_composite_lp_aggregate(True): the sum has one key, log_prob_key")
        if one is not None and several is not None:
            raise ModuleError("give log_prob_key or log_prob_keys, not both")
        if self._aggregate or (one is not None and len(self._samples) == 1):
            return as_keys(LOG_PROB_KEY if one is None else one, "log_prob_key", nested=True)
        if one is not None:
            raise ModuleError(
                f"log_prob_key={one!r} for {len(self._samples)} sample keys: give log_prob_keys, one for each, or sum "
                "under set_composite_lp_aggregate(True)"
            )
        if several is None:
            return [suffixed(key, "_log_prob") for key in self._samples]
        keys = as_keys(several, "log_prob_keys")
        if len(keys) != len(self._samples):
            raise ModuleError(f"log_prob_keys names {len(keys)} keys for the {len(self._samples)} of {self._samples}")
        return keys

    def _same_flag(self) -> None:
        if AGGREGATE.get() is not self._aggregate:
            raise ModuleError(
                f"set_composite_lp_aggregate was {self._aggregate} when {type(self).__name__} was built, which decides "
                f"its log-probability keys, and is {composite_lp_aggregate()} now"
            )

    @property
    def dist_params_keys(self) -> Keys:
        """The keys of the parameters: the in keys."""
        return self.in_keys

    @property
    def dist_sample_keys(self) -> Keys:
        """The keys of the values: the out keys without the log-probability keys."""
        return list(self._samples)

    @property
    def log_prob_keys(self) -> Keys:
        """The keys of the log-probabilities.

        Raises:
            ModuleError: (a `RuntimeError`) if the aggregate flag has changed since the module was built.
        """
        self._same_flag()
        return list(self._scores)

    @property
    def log_prob_key(self) -> Any:
        """The key of the log-probability, if there is only one.

        Raises:
            ModuleError: (a `RuntimeError`) if there are several, or if the aggregate flag has changed.
        """
        keys = self.log_prob_keys
        if len(keys) != 1:
            raise ModuleError(f"there are several log-probability keys, {keys}; use `log_prob_keys`")
        return keys[0]

    # ---- the distribution ----------------------------------------------------------------------------------------

    def get_dist(self, tensordict: Any) -> Any:
        """Build the distribution from the parameters in a container.

        Raises:
            MissingKeyError: for a missing parameter.
            TypeError: if the distribution doesn't accept the parameters.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> module = ProbabilisticTensorDictModule(["rate"], ["x"], distribution_class=torch.distributions.Poisson)
        >>> module.get_dist(TensorDict(rate=torch.ones(2))).mean
        tensor([1., 1.])
        """
        values = plain_tensors(tensordict, self.in_keys) or self._read_parameters(tensordict)
        constants = self.distribution_kwargs
        constants = constants if type(constants) is dict else dict(constants.items())
        return build(self.distribution_class, dict(zip(self._names, values, strict=True)), constants, self._label)

    build_dist_from_params = get_dist

    def _read_parameters(self, data: Any) -> list[Any]:
        values = [read(data, key) for key in self.in_keys]
        for key, value in zip(self.in_keys, values, strict=True):
            if value is None:
                names = [str(name) for name in data.keys(True)]
                raise MissingKeyError(
                    f"{self._label()} reads {key!r}, not found in the input{did_you_mean(str(key), names)}; it has "
                    f"{sorted(names)}"
                )
        return values

    def log_prob(self, tensordict: Any, *, dist: Any = None) -> Any:
        """The log-probability of the value at the out keys of a container.

        Args:
            tensordict: The parameters and the value.
            dist: The distribution; by default it is built from the parameters.

        Returns:
            A tensor. For a composite distribution, a container with one entry per component; or their sum under
            `set_composite_lp_aggregate(True)`, which also writes the entries.
        """
        dist = self.get_dist(tensordict) if dist is None else dist
        if not isinstance(dist, CompositeDistribution):
            values = [tensordict[key] for key in self._samples]
            return dist.log_prob(values[0] if len(values) == 1 else tuple(values))
        self._same_flag()
        if not self._aggregate:
            return dist.log_prob(tensordict)
        dist.log_prob_key = self._scores[0]
        return dist.log_prob_composite(tensordict, include_sum=True)[self._scores[0]]

    # ---- running -------------------------------------------------------------------------------------------------

    _direct = True

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool = True) -> Any:
        """Build the distribution and write a value of it.

        Args:
            tensordict: The container with the parameters; or tensors, which are matched to the in keys.
            tensordict_out: The container for the values; by default the input.

        Returns:
            The container with the values; with `num_samples`, a new container, expanded to `[*num_samples, *batch]`.
        """
        return self._run(tensordict, tensordict_out, {"_requires_sample": _requires_sample})

    def _run(self, data: Any, out: Any = None, kwargs: Mapping[str, Any] | None = None) -> Any:
        """Make the distribution, draw from it, and write values and log-probabilities."""
        mode = SKIP.get()
        if mode is not False and skips(data, self.in_keys, self.out_keys, mode):
            return data
        target = data if out is None else out
        if kwargs and not kwargs["_requires_sample"]:
            return target
        dist = self.get_dist(data)
        scored = self.return_log_prob
        if scored and AGGREGATE.get() is not self._aggregate:
            self._same_flag()
        generator, seed = (None, None) if self.generator is None else self._generator_of(data)
        overridden = type(self).draw_value is not ProbabilisticTensorDictModule.draw_value
        value, score = (self._drawn_otherwise if overridden else self._by_type)(dist, scored, generator)
        if seed is not None and generator is not None:
            data.set(seed, _next_seed(generator, data[seed]))
        if self.num_samples:
            target = target.expand(self.num_samples + target.batch_size)
        if type(value) is torch.Tensor and len(self._samples) == 1:
            values = {self._samples[0]: value, self._scores[0]: score} if scored else {self._samples[0]: value}
        else:
            values = self._values(value)
            values |= self._scored(dist, value, score, target.batch_size) if scored else {}
        write(target, values)
        return target

    def draw_value(self, dist: Any) -> Any:
        """Draw a value of a distribution by the interaction type and `num_samples`; subclasses may draw otherwise.

        A call of the module draws with it, and scores what it returns.

        Args:
            dist: The distribution, such as that of `get_dist`.

        Returns:
            A tensor, a tuple with one value for each sample key, or a container with the sample keys.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import ProbabilisticTensorDictModule
        >>> class Clipped(ProbabilisticTensorDictModule):
        ...     def draw_value(self, dist):
        ...         return super().draw_value(dist).clamp(-1, 1)
        >>> module = Clipped(["loc", "scale"], ["action"], distribution_class=torch.distributions.Normal)
        >>> module(TensorDict(loc=torch.tensor(3.0), scale=torch.tensor(1.0)))["action"]
        tensor(1.)
        """
        generator = self.generator if isinstance(self.generator, torch.Generator) else None
        return self._by_type(dist, False, generator)[0]

    def _drawn_otherwise(self, dist: Any, scored: bool, _: torch.Generator | None) -> tuple[Any, Any]:
        """A value and its log-probability, drawn by the method of a subclass."""
        value = self.draw_value(dist)
        return value, dist.log_prob(value) if scored else None

    def _by_type(self, dist: Any, scored: bool, generator: torch.Generator | None) -> tuple[Any, Any]:
        shape = torch.Size(()) if self.num_samples is None else self.num_samples
        kind = self.default_interaction_type
        return draw(dist, kind, shape, scored, self.n_empirical_estimate, generator, self._label)

    def _generator_of(self, data: Any) -> tuple[torch.Generator | None, Any]:
        """The generator of a call, and the key of its seed."""
        if isinstance(self.generator, torch.Generator):
            return self.generator, None
        held = data[self.generator] if self.generator in data.keys(True) else None
        if held is None or isinstance(held, torch.Generator):
            return held, None
        return torch.Generator().manual_seed(int(held)), self.generator

    def _values(self, value: Any) -> dict[Any, Any]:
        if isinstance(value, TensorCollection):
            return dict(value.items(True, True))  # type: ignore[attr-defined]  # containers have it
        values = value if isinstance(value, tuple) else (value,)
        if len(values) != len(self._samples):
            raise ModuleError(
                f"{self._label()}: the distribution gives {len(values)} value(s) for the out_keys {self._samples}"
            )
        return dict(zip(self._samples, values, strict=True))

    def _scored(self, dist: Any, value: Any, score: Any, size: torch.Size) -> dict[Any, Any]:
        if not isinstance(dist, CompositeDistribution):
            return {self._scores[0]: score}
        if self._aggregate:
            parts = dist.log_prob_composite(TensorDict(value, size), include_sum=False).items(True, True)
            return {**dict(parts), self._scores[0]: score}
        pairs = zip(dist, self._scores, strict=True)
        return {key: score[suffixed(sample, "_log_prob")] for sample, key in pairs}

    def _label(self) -> str:
        return f"{type(self).__name__} `{getattr(self.distribution_class, '__name__', self.distribution_class)}`"

    def _shown(self) -> dict[str, Any]:
        return {
            **super()._shown(),
            "distribution_class": self.distribution_class,
            "distribution_kwargs": self.distribution_kwargs,
            "default_interaction_type": self.default_interaction_type,
            "num_samples": self.num_samples and tuple(self.num_samples),
        }


def as_shape(num_samples: Any) -> torch.Size:
    """Leading dims from a number, a shape or None."""
    size = as_ints(() if num_samples is None else num_samples, "num_samples")
    if any([n < 0 for n in size]):
        raise ArgumentError(f"num_samples is a number from 0, or a shape of such numbers, got {num_samples!r:.60}")
    return torch.Size(size)


def _next_seed(generator: torch.Generator, held: Any) -> Any:
    seed = torch.randint(2**62, (), generator=generator)
    return seed.to(held.device) if isinstance(held, torch.Tensor) else int(seed)


def _parameters(in_keys: Any) -> tuple[list[str], Keys]:
    """The names of the arguments of the distribution, and their keys."""
    if isinstance(in_keys, Mapping):
        return list(in_keys), as_keys(list(in_keys.values()), "in_keys")
    keys = as_keys(in_keys, "in_keys", nested=True)
    names = [unravel_key_to_tuple(key)[-1] for key in keys]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ModuleError(f"in_keys {keys} name the argument `{twice[0]}` twice; give a dict, {{argument: key}}")
    return names, keys


def _refuse_overlap(samples: Keys, scores: Keys) -> None:
    """Refuse a log-probability that would overwrite a value, or be inside or around one."""
    for score in map(unravel_key_to_tuple, scores):
        for sample in map(unravel_key_to_tuple, samples):
            n = min(len(score), len(sample))
            if score[:n] == sample[:n] and sample != (DROPPED,):
                raise ModuleError(f"the log-probability key {score} would overwrite the sample {sample}; name another")
