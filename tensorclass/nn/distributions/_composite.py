"""Several named distributions as one distribution over containers."""

# torch declares the class attributes of a distribution as properties, and its values as tensors.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.distributions import constraints
from typing_extensions import Self

from ..._flags import flags
from ...core import KEY_SEPARATOR, NestedKey, TensorCollection, unravel_key, unravel_key_to_tuple
from ...errors import ArgumentError, MissingKeyError, did_you_mean
from ...store import TensorDict, is_tensor_collection
from ._fixed import fixed_value
from ._interaction import InteractionType, composite_lp_aggregate

Shape = Any  # the shape argument of torch's distributions: a torch.Size or a sequence of ints
Key = Any  # a normalised key: a string, or a tuple of them
LOG_PROB_KEY = "sample_log_prob"
ENTROPY_KEY = "entropy"


@flags
class CompositeDistribution(D.Distribution):
    """A distribution over containers, composed of several named distributions.

    Component `name` is `distribution_map[name](**params[name], **extra_kwargs[name])`. The composite is also a mapping
    from sample keys to components. Its batch shape is the batch size of `params`; the event dims of each component are
    in its entry.

    Args:
        params: The parameters: for each name, a container with the keyword arguments of its distribution.
        distribution_map: For each name (keys may be nested), a distribution class, or a callable that returns a
            distribution.
        name_map: The sample key of each name; omitted names are their own keys.
        extra_kwargs: Further keyword arguments for each name.
        log_prob_key: The key at which `log_prob_composite` writes the sum; by default "sample_log_prob".
        entropy_key: The key at which `entropy_composite` writes the sum; by default "entropy".

    Raises:
        MissingKeyError: if `params` has no entry for a name.
        ValueError: if `name_map` or `extra_kwargs` has a name that `distribution_map` lacks, or if two samples have the
            same key.

    >>> params = TensorDict({"x": {"loc": torch.zeros(3, 4), "scale": torch.ones(3, 4)}}, [3])
    >>> dist = CompositeDistribution(params, distribution_map={"x": D.Normal})
    >>> dist.sample((2,))["x"].shape, dist.log_prob(dist.sample())["x_log_prob"].shape
    (torch.Size([2, 3, 4]), torch.Size([3, 4]))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(
        self,
        params: TensorCollection,
        distribution_map: Mapping[NestedKey, Callable[..., D.Distribution]],
        *,
        name_map: Mapping[NestedKey, NestedKey] | None = None,
        extra_kwargs: Mapping[NestedKey, Mapping[str, Any]] | None = None,
        log_prob_key: NestedKey | None = None,
        entropy_key: NestedKey | None = None,
    ) -> None:
        makers = {unravel_key(name): maker for name, maker in distribution_map.items()}
        extra = _known_makers(extra_kwargs or {}, makers, "extra_kwargs")
        _known_makers(name_map or {}, makers, "name_map")
        dists = {name: _make_distribution(params, name, maker, extra.get(name, {})) for name, maker in makers.items()}
        self._take(params, dists, name_map, log_prob_key, entropy_key)

    @classmethod
    def from_distributions(
        cls,
        params: TensorCollection,
        distributions: Mapping[NestedKey, D.Distribution],
        *,
        name_map: Mapping[NestedKey, NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        entropy_key: NestedKey | None = None,
    ) -> Self:
        """Make a composite of existing distributions.

        Args:
            params: A container whose batch size is the batch shape; its entries are not read.
            distributions: The components by name.
            name_map: The sample key of each name.
            log_prob_key: As in the constructor.
            entropy_key: As in the constructor.

        >>> normal = D.Normal(torch.zeros(3), torch.ones(3))
        >>> sorted(CompositeDistribution.from_distributions(TensorDict(batch_size=[3]), {"a": normal}).sample().keys())
        ['a']
        """
        new = cls.__new__(cls)
        named = {unravel_key(name): dist for name, dist in distributions.items()}
        new._take(params, named, name_map, log_prob_key, entropy_key)
        return new

    def _take(
        self, params: Any, dists: Mapping[Key, D.Distribution], name_map: Any, log_prob: Any, entropy: Any
    ) -> None:
        """Take the components under their sample keys, which must differ."""
        renamed = {unravel_key(name): unravel_key(key) for name, key in (name_map or {}).items()}
        keys = [renamed.get(name, name) for name in dists]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ArgumentError(f"CompositeDistribution: two components would have the sample key {twice[0]!r:.200}")
        self.dists: dict[Key, D.Distribution] = dict(zip(keys, dists.values(), strict=True))
        self.log_prob_key, self.entropy_key = log_prob, entropy
        super().__init__(params.batch_size, torch.Size(), validate_args=False)
        for key, dist in self.dists.items():
            if dist.batch_shape[: len(self.batch_shape)] != self.batch_shape:
                raise ArgumentError(
                    f"CompositeDistribution: the batch shape {list(dist.batch_shape)} of `{_text(key)}` does not start "
                    f"with {list(self.batch_shape)}, the batch size of the parameters"
                )

    # ---- a mapping -----------------------------------------------------------------------------------------------

    def __getitem__(self, key: NestedKey) -> D.Distribution:
        return self.dists[unravel_key(key)]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.dists)

    def __len__(self) -> int:
        return len(self.dists)

    def get(self, key: NestedKey, default: Any = None) -> Any:
        """The component under a key of the samples, or the default."""
        return self.dists.get(unravel_key(key), default)

    def keys(self) -> KeysView[Key]:
        """The keys of the samples; a nested one is a tuple."""
        return self.dists.keys()

    def values(self) -> ValuesView[D.Distribution]:
        """The components."""
        return self.dists.values()

    def items(self) -> ItemsView[Key, D.Distribution]:
        """The keys of the samples with their components."""
        return self.dists.items()

    def __repr__(self) -> str:
        return f"CompositeDistribution({', '.join(f'{_text(key)}: {dist}' for key, dist in self.dists.items())})"

    @property
    def log_prob_key(self) -> Key:
        """The key at which `log_prob_composite` writes the sum; None restores the default."""
        return self._log_prob_key

    @log_prob_key.setter
    def log_prob_key(self, key: NestedKey | None) -> None:
        self._log_prob_key = unravel_key(LOG_PROB_KEY if key is None else key)

    @property
    def entropy_key(self) -> Key:
        """The key at which `entropy_composite` writes the sum; None restores the default."""
        return self._entropy_key

    @entropy_key.setter
    def entropy_key(self, key: NestedKey | None) -> None:
        self._entropy_key = unravel_key(ENTROPY_KEY if key is None else key)

    # ---- values --------------------------------------------------------------------------------------------------

    def _collect(self, value: Callable[[D.Distribution], Any], shape: torch.Size = torch.Size()) -> TensorDict:  # noqa: B008  # immutable
        size = shape + self.batch_shape
        return TensorDict({key: value(dist) for key, dist in self.dists.items()}, batch_size=size)

    def sample(self, sample_shape: Shape = None, *, shape: Shape = None) -> TensorDict:  # type: ignore[override]  # a container
        """Draw a sample of every component; the batch size is `[*sample_shape, *batch]`.

        Args:
            sample_shape: Leading dims of the sample.
            shape: An alias of `sample_shape`, for compatibility.
        """
        size = _size(sample_shape, shape)
        return self._collect(lambda dist: dist.sample(size), size)

    def rsample(self, sample_shape: Shape = None, *, shape: Shape = None) -> TensorDict:  # type: ignore[override]  # a container
        """Draw a reparametrized sample of every component, as `sample`; each component must have `rsample`."""
        size = _size(sample_shape, shape)
        return self._collect(lambda dist: dist.rsample(size), size)

    def sample_and_log_prob(
        self, sample_shape: Shape = None, *, shape: Shape = None
    ) -> tuple[TensorDict, Tensor | TensorDict]:
        """A sample as by `sample`, and the log-probability of the same draw in the form of `log_prob`."""
        return self._drawn("sample", _size(sample_shape, shape))

    def rsample_and_log_prob(
        self, sample_shape: Shape = None, *, shape: Shape = None
    ) -> tuple[TensorDict, Tensor | TensorDict]:
        """A sample as by `rsample`, and the log-probability of the same draw in the form of `log_prob`."""
        return self._drawn("rsample", _size(sample_shape, shape))

    def _drawn(self, how: str, shape: torch.Size) -> tuple[TensorDict, Tensor | TensorDict]:
        pairs = {key: drawn(dist, how, shape, True) for key, dist in self.dists.items()}
        sample = TensorDict({key: value for key, (value, _) in pairs.items()}, batch_size=shape + self.batch_shape)
        scores = {key: score for key, (_, score) in pairs.items()}
        return sample, self._scores(scores, sample.batch_size, composite_lp_aggregate())

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # as in torch's composed distributions
        """Whether every component has reparametrized samples."""
        return all(dist.has_rsample for dist in self.dists.values())

    @property
    def mean(self) -> TensorDict:  # type: ignore[override]  # a container
        """The mean of every component; a component without one is an error that names its distribution."""
        return self._collect(lambda dist: fixed_value(dist, InteractionType.MEAN))

    @property
    def mode(self) -> TensorDict:  # type: ignore[override]  # a container
        """The mode of every component; a component without one is an error that names its distribution."""
        return self._collect(lambda dist: fixed_value(dist, InteractionType.MODE))

    @property
    def deterministic_sample(self) -> TensorDict:
        """The deterministic value of every component; see `InteractionType`."""
        return self._collect(lambda dist: fixed_value(dist, InteractionType.DETERMINISTIC))

    # ---- probabilities -------------------------------------------------------------------------------------------

    def log_prob(self, sample: TensorCollection) -> Tensor | TensorDict:  # type: ignore[override]  # of a container
        """The log-probability of a sample, which holds the value of each component under its key.

        Returns:
            Under `set_composite_lp_aggregate(True)` one tensor, `[*batch of the sample]`: the sum over components and
            event dims. Else a new container with one entry `<key>_log_prob` per component.
        """
        scores: Tensor | TensorDict = self._scores(self._log_probs(sample), sample.batch_size, composite_lp_aggregate())
        return scores

    def log_prob_composite(self, sample: Any, *, include_sum: bool | None = None) -> Any:
        """The log-probability of every component, at `<key>_log_prob`.

        Args:
            sample: The value of each component at its key.
            include_sum: Whether to write the sum at `log_prob_key`; by default `composite_lp_aggregate()`.

        Returns:
            A new container; under `set_composite_lp_aggregate(True)` the sample itself, with the entries written.
        """
        result = self._scores(self._log_probs(sample), sample.batch_size, False)
        if composite_lp_aggregate() if include_sum is None else include_sum:
            result[self.log_prob_key] = total(result.values(True, True), sample.batch_size)
        return sample.update(result) if composite_lp_aggregate() else result

    def _log_probs(self, sample: TensorCollection) -> dict[Key, Tensor]:
        return {key: dist.log_prob(_value(sample, key)) for key, dist in self.dists.items()}

    def _scores(self, scores: dict[Key, Tensor], size: torch.Size, aggregate: bool) -> Any:
        if aggregate:
            return total(scores.values(), size)
        return TensorDict({suffixed(key, "_log_prob"): score for key, score in scores.items()}, batch_size=size)

    def entropy(  # type: ignore[override]  # a container
        self, samples_mc: int = 1, *, aggregate_probabilities: bool | None = None, include_sum: bool | None = None
    ) -> Tensor | TensorDict:
        """The entropy: one tensor under `set_composite_lp_aggregate(True)`, else one entry per component.

        Args:
            samples_mc: The number of samples that estimate an entropy without a closed form.
            aggregate_probabilities: Without effect; accepted for compatibility.
            include_sum: As in `entropy_composite`.
        """
        if composite_lp_aggregate():
            return total([_entropy(dist, samples_mc) for dist in self.dists.values()], self.batch_shape)
        return self.entropy_composite(samples_mc, include_sum=include_sum)

    def entropy_composite(self, samples_mc: int = 1, *, include_sum: bool | None = None) -> TensorDict:
        """The entropy of every component, at `<key>_entropy`, batch size `[*batch]`.

        Args:
            samples_mc: The number of samples that estimate an entropy without a closed form.
            include_sum: Whether to write the sum at `entropy_key`; by default `composite_lp_aggregate()`.
        """
        entries = {suffixed(key, "_entropy"): _entropy(dist, samples_mc) for key, dist in self.dists.items()}
        result = TensorDict(entries, batch_size=self.batch_shape)
        if composite_lp_aggregate() if include_sum is None else include_sum:
            result[self.entropy_key] = total(entries.values(), self.batch_shape)
        return result

    def cdf(self, sample: Any) -> Any:
        """Write the cumulative probability of each component's value into the sample, at `<key>_cdf`."""
        return sample.update({suffixed(key, "_cdf"): d.cdf(_value(sample, key)) for key, d in self.dists.items()})

    def icdf(self, sample: Any) -> Any:
        """Write the inverse of the cumulative probability of each component into the sample, at `<key>_icdf`.

        The probability is read at `<key>_cdf`; if that is missing, it is computed from the value at the key.
        """
        shares = {}
        for key, dist in self.dists.items():
            share = sample.get(suffixed(key, "_cdf"), None)
            shares[suffixed(key, "_icdf")] = dist.icdf(dist.cdf(_value(sample, key)) if share is None else share)
        return sample.update(shares)


def drawn(dist: Any, how: str, shape: torch.Size, scored: bool) -> tuple[Any, Any]:
    """A value by `sample` or `rsample`, and its log-probability or None."""
    both = getattr(dist, f"{how}_and_log_prob", None)
    if scored and both is not None:
        value, score = both(shape)
        return value, score
    value = getattr(dist, how)(shape)
    return value, dist.log_prob(value) if scored else None


def _size(sample_shape: Shape, shape: Shape) -> torch.Size:
    """The leading dims of a sample, from either of two arguments.

    Raises:
        TypeError: if both are given.
    """
    if sample_shape is not None and shape is not None:
        raise ArgumentError("CompositeDistribution: `shape` is an alias of `sample_shape`; give one of them")
    return torch.Size((sample_shape if shape is None else shape) or ())


def suffixed(key: NestedKey, suffix: str) -> Key:
    """A key with a suffix on its last part.

    >>> suffixed(("agent", "action"), "_log_prob")
    ('agent', 'action_log_prob')
    """
    *outer, last = unravel_key_to_tuple(key)
    return unravel_key((*outer, last + suffix))


def _make_distribution(
    params: Any, name: Key, maker: Callable[..., D.Distribution], extra: Mapping[str, Any]
) -> D.Distribution:
    arguments = {**_arguments(params, name), **extra}
    try:
        return maker(**arguments)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = f"CompositeDistribution: component `{_text(name)}`, made of {', '.join(arguments)}: {error}"
        raise kind(message) from error


def _arguments(params: Any, name: Key) -> dict[str, Any]:
    """The keyword arguments of one component."""
    entry: Any = params.get(name, None)
    if entry is None:
        names = [_text(key) for key in params.keys(True)]
        raise MissingKeyError(
            f"CompositeDistribution: the parameters have no entry `{_text(name)}`{did_you_mean(_text(name), names)}; "
            f"they have {', '.join(names) or 'none'}"
        )
    if not is_tensor_collection(entry):
        raise ArgumentError(
            f"CompositeDistribution: `{_text(name)}` holds the keyword arguments of its distribution, as in "
            f"{{'loc': ..., 'scale': ...}}; got a {type(entry).__name__}"
        )
    return dict(entry.items())


def _known_makers(given: Mapping[NestedKey, Any], makers: Mapping[Key, Any], role: str) -> dict[Key, Any]:
    table = {unravel_key(name): value for name, value in given.items()}
    for name in table:
        if name not in makers:
            near = did_you_mean(_text(name), map(_text, makers))
            raise ArgumentError(f"CompositeDistribution: {role} names `{_text(name)}`, which is not a component{near}")
    return table


def _value(sample: Any, key: Key) -> Any:
    value = sample.get(key, None)
    if value is None:
        names = [_text(k) for k in sample.keys(True, True)]
        raise MissingKeyError(f"the sample has no value `{_text(key)}`; it has {', '.join(names) or 'none'}")
    return value


def _text(key: Key) -> str:
    return key if isinstance(key, str) else KEY_SEPARATOR.join(key)


def _entropy(dist: D.Distribution, samples: int) -> Tensor:
    try:
        return dist.entropy()
    except NotImplementedError:
        drawn = dist.rsample(torch.Size((samples,)))
        return -dist.log_prob(drawn).mean(0)


def total(parts: Any, size: torch.Size) -> Tensor:
    """The sum of log-probabilities or entropies over components and event dims, `[*size]`."""
    summed: Tensor = sum(part.flatten(len(size)).sum(-1) if part.ndim > len(size) else part for part in parts)
    return summed
