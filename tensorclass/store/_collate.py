"""DataLoader support: its default collate stacks containers, and keeps a container that `__getitems__` gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data._utils.collate import default_collate, default_collate_fn_map

from ..core import Key, Path, TensorCollection, join_path, unravel_key_to_tuple
from ..errors import ArgumentError
from ..ops import stack
from ._dict import TensorDict

C = TypeVar("C", bound=TensorCollection)


def collate_containers(batch: Sequence[Any] | TensorCollection, *, collate_fn_map: Any = None) -> Any:
    """Stack a list of containers by the join policies of their fields; a container is already a batch."""
    return batch if isinstance(batch, TensorCollection) else stack(batch)


@overload
def collate(batch: Sequence[C]) -> C: ...
@overload
def collate(
    batch: Sequence[Any],
    *,
    pad_keys: Mapping[Key, float] | None = None,
    nested_keys: Sequence[Key] | None = None,
    mask_key: Key | None = None,
) -> Any: ...
def collate(
    batch: Sequence[Any],
    *,
    pad_keys: Mapping[Key, float] | None = None,
    nested_keys: Sequence[Key] | None = None,
    mask_key: Key | None = None,
) -> Any:
    """Stack a list of containers; a `collate_fn` for a DataLoader that doesn't use its default.

    Args:
        batch: containers, or tuples and dicts of containers; anything but a sequence is already a batch.
        pad_keys: the entries to pad along their first dim, with the padding value of each.
        nested_keys: the entries that become nested tensors with the jagged layout.
        mask_key: the key for the masks of padded entries: a container with True for values that are not padding.

    A class that declares `field(join="pad")` needs no options.

    Raises:
        MissingKeyError: for a sample that lacks one of the entries.
        ArgumentError: for masks without padding, an entry in both lists, a mask key that is an entry, and for padding
            of samples with batch dims.
        StructureError: if other entries can't be stacked.

    >>> import torch
    >>> from tensorclass import TensorDict, collate
    >>> collate([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(3))]).batch_size
    torch.Size([2])
    >>> collate([TensorDict(a=torch.ones(n)) for n in (1, 2)], pad_keys={"a": 7})["a"]
    tensor([[1., 7.],
            [1., 1.]])
    """
    if not isinstance(batch, (list, tuple)) or not batch:
        return batch
    pads = {unravel_key_to_tuple(key): value for key, value in (pad_keys or {}).items()}
    nests = [unravel_key_to_tuple(key) for key in nested_keys or ()]
    mask = None if mask_key is None else unravel_key_to_tuple(mask_key)
    if mask is not None and not pads:
        raise ArgumentError("collate: `mask_key` names the masks of `pad_keys`, and there are none")
    both = [path for path in nests if path in pads]
    if both:
        raise ArgumentError(f"collate: `{join_path(both[0])}` is in `pad_keys` and in `nested_keys`")
    return _collate(batch, pads, nests, mask)


def _collate(batch: Sequence[Any], pads: dict[Path, float], nests: list[Path], mask: Path | None) -> Any:
    first = batch[0]
    if isinstance(first, TensorCollection):
        return _by_keys(batch, pads, nests, mask) if pads or nests else stack(batch)
    if isinstance(first, Mapping):
        return {key: _collate([sample[key] for sample in batch], pads, nests, mask) for key in first}
    if isinstance(first, tuple):
        parts = [_collate(list(column), pads, nests, mask) for column in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return default_collate(batch)


def _by_keys(samples: Sequence[Any], pads: dict[Path, float], nests: list[Path], mask: Path | None) -> Any:
    """Stack containers, with padded and nested entries."""
    if pads and any([sample._batch_size for sample in samples]):
        raise ArgumentError("collate: `pad_keys` pads samples without batch dims; call `pad_sequence` for others")
    named = [*pads, *nests]
    if mask is not None and any([mask in sample.keys(include_nested=True) for sample in samples]):
        raise ArgumentError(f"collate: `{join_path(mask)}` is an entry of the samples; give another `mask_key`")
    columns = {path: [sample[path] for sample in samples] for path in named}
    found: Any = stack([sample.exclude(*named) for sample in samples])
    masks: Any = TensorDict({}, found.batch_size)
    for path, value in pads.items():
        found[path] = pad_sequence(columns[path], batch_first=True, padding_value=value)
        lengths = torch.tensor([len(row) for row in columns[path]], device=found[path].device)
        masks[path] = torch.arange(found[path].shape[1], device=lengths.device) < lengths[:, None]
    for path in nests:
        found[path] = torch.nested.as_nested_tensor(columns[path], layout=torch.jagged)
    if mask is not None:
        found[mask] = masks
    kind: Any = type(samples[0])
    return kind.from_tensordict(found) if samples[0]._layered else found


default_collate_fn_map[TensorCollection] = collate_containers
