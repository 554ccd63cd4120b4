"""Stores of zarr behind URLs. Their requests are repeated after a failure, as those of the other formats are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from typing import Any

from .._access import Access, awaited_with_retries, current_access, store_options
from .._optional import optional

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def far_store(url: str, read_only: bool) -> Any:
    """A store of zarr at a URL, with the options, time limits and tries of this block, which also hold after it."""
    kind = optional("zarr.storage", "A zarr group", "zarr").FsspecStore
    # fsspec reports some failures as an absent file, which zarr would read as zeros: absence is decided below
    store = kind.from_url(url, storage_options=store_options(url), read_only=read_only, allowed_exceptions=())
    return _repeating_store()(store, url, current_access())


@cache
def _repeating_store() -> Any:
    """The class of stores that repeat failed requests to another store."""
    wrapper = optional("zarr.storage", "A zarr group", "zarr").WrapperStore
    prototype_of = optional("zarr.core.buffer", "A zarr group", "zarr").default_buffer_prototype

    class RepeatingStore(wrapper):  # type: ignore[misc, valid-type]  # zarr is optional
        def __init__(self, store: Any, url: str, access: Access) -> None:
            super().__init__(store)
            self.url, self.access = url.rstrip("/"), access

        def __str__(self) -> str:
            return self.url

        async def _ask(self, key: str, call: Callable[[], Awaitable[Any]]) -> Any:
            try:
                return await awaited_with_retries(f"{self.url}/{key}", self.access, call)
            except _ABSENT as error:
                if isinstance(error.__cause__, _ABSENT):
                    return None
                raise  # a server that says that it is gone

        def with_read_only(self, read_only: bool = False) -> Any:
            return type(self)(self._store.with_read_only(read_only), self.url, self.access)

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            return await self._ask(key, partial(self._store.get, key, prototype, byte_range))

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
            return await asyncio.gather(*[self.get(key, prototype, part) for key, part in key_ranges])

        async def exists(self, key: str) -> bool:
            return await self.get(key, prototype_of()) is not None  # file systems call what they can't reach absent

        async def set(self, key: str, value: Any) -> None:
            await self._ask(key, partial(self._store.set, key, value))

        async def delete(self, key: str) -> None:
            await self._ask(key, partial(self._store.delete, key))

        async def delete_dir(self, prefix: str) -> None:
            await self._ask(prefix, partial(self._store.delete_dir, prefix))

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            async def names() -> list[str]:
                return [name async for name in self._store.list_dir(prefix)]

            for name in await self._ask(prefix, names) or []:
                yield name

    return RepeatingStore
