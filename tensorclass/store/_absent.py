"""Names of `tensordict.store`, which are refused with the reason."""

from __future__ import annotations

from ..errors import page_of

_SERVERS = ("TensorDictStore", "LazyStackedTensorDictStore", "STORE_BACKENDS")


def __getattr__(name: str) -> object:
    if name in _SERVERS:
        raise ImportError(
            f"tensorclass has no `{name}`: there are no containers over Redis or Dragonfly servers; keep batches in "
            "files (`memmap`, `TensorClassDataset`) or send them between processes (`send`, `init_remote`); see "
            f'"Not there" in {page_of("migrating")}'
        )
    raise AttributeError(f"module 'tensorclass.store' has no attribute {name!r:.200}")
