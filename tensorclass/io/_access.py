"""How stores are reached: their options, time limits, and what is tried again.

`call_with_retries` is around every request, and names the URL in every error.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from ..errors import ArgumentError, TensorClassError, UnsupportedOperationError
from ._optional import optional

T = TypeVar("T")
TRIES = 4
PAUSE = 0.05
"""Seconds before the second try; each following pause is twice as long."""


class Access(NamedTuple):
    """How stores are reached: options of `fsspec`, seconds without a byte, tries after the first."""

    storage_options: Mapping[str, Any] | None = None
    timeout: float | None = None
    retries: int | None = None

    @property
    def tries(self) -> int:
        """How often a request is made at most."""
        return TRIES if self.retries is None else 1 + self.retries


_OUTSIDE = Access()
_ACCESS: ContextVar[Access] = ContextVar("tensorclass-access", default=_OUTSIDE)


def checked_access(storage_options: Any, timeout: Any, retries: Any) -> Access:
    """How stores are reached, checked."""
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise ArgumentError(f"storage_options is a dict of options of fsspec, got {storage_options!r:.60}")
    if timeout is not None and (not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf")):
        raise ArgumentError(f"timeout is a number of seconds above 0, got {timeout!r:.40}")
    if retries is not None and (type(retries) is not int or retries < 0):
        raise ArgumentError(f"retries is a whole number from 0, got {retries!r:.40}")
    return Access(storage_options, timeout, retries)


@contextmanager
def reaching(access: Access) -> Iterator[None]:
    """A block in which stores are reached so; an option that is not given keeps its value."""
    given = {name: value for name, value in access._asdict().items() if value is not None}
    token = _ACCESS.set(_ACCESS.get()._replace(**given))
    try:
        yield
    finally:
        _ACCESS.reset(token)


def current_access() -> Access:
    """How stores are reached in this block, for other threads and processes."""
    return _ACCESS.get()


def remote_access(
    *, storage_options: Mapping[str, Any] | None = None, timeout: float | None = None, retries: int | None = None
) -> AbstractContextManager[None]:
    """A block whose functions read and write URLs with these options: `load`, `save`, `convert`, datasets.

    Args:
        storage_options: options of the file system of `fsspec`, such as `{"anon": True}`.
        timeout: seconds that an HTTP or S3 server may send nothing; by default 60.
        retries: how often a failed request is repeated; by default 3.

    Raises:
        ArgumentError: for values of other types.

    >>> import torch
    >>> from tensorclass import TensorDict, load
    >>> from tensorclass.io import remote_access
    >>> saved = TensorDict(a=torch.arange(2)).save("memory://bucket/a.safetensors")
    >>> with remote_access(timeout=5, retries=1):
    ...     load("memory://bucket/a.safetensors")["a"]
    tensor([0, 1])
    """
    return reaching(checked_access(storage_options, timeout, retries))


def store_at(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in that file system."""
    fsspec = optional("fsspec", f"The URL {url:.200}", "remote")
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url, **store_options(url))
    except (ImportError, ValueError) as error:
        raise UnsupportedOperationError(f"{url:.200}: fsspec can't open it: {error}") from error
    return found


def store_options(url: str) -> dict[str, Any]:
    """The options of the file system of a URL, with its time limits."""
    kind, access = url.partition("://")[0], _ACCESS.get()
    options = dict[str, Any](access.storage_options or {})
    if kind in ("http", "https"):
        mine = {"trace_configs": [_trace()], "timeout": _timeouts_of(access.timeout)}
        options["client_kwargs"] = {**mine, **options.get("client_kwargs", {})}
    elif kind in ("s3", "s3a") and access.timeout is not None:
        mine = {"connect_timeout": access.timeout, "read_timeout": access.timeout}
        options["config_kwargs"] = {**mine, **options.get("config_kwargs", {})}
    return options


def _timeouts_of(seconds: float | None) -> Any:
    """The time limits of a request: none for a whole file, but for a server that accepts or sends nothing."""
    seconds = seconds or float(os.environ.get("TENSORCLASS_TIMEOUT") or 60)
    aiohttp = optional("aiohttp", "An http URL", "remote")
    return aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds)


@functools.cache
def _trace() -> Any:
    """A trace that compares the range that a server sends with the requested one; fsspec doesn't check it."""
    trace = optional("aiohttp", "An http URL", "remote").TraceConfig()

    async def check(session: Any, context: Any, params: Any) -> None:
        asked, answer = params.headers.get("Range", ""), params.response
        sent = answer.headers.get("Content-Range", "")
        if asked and answer.status == 206 and not _is_answer(asked, sent):
            raise OSError(errno.EIO, f"requested {asked}, the server sent {sent!r:.80}")

    trace.on_request_end.append(check)
    return trace


def _is_answer(asked: str, sent: str) -> bool:
    """Whether a range that was sent is the requested one, up to the end of the file."""
    wanted, got = re.fullmatch(r"bytes=(\d+)-(\d+)", asked), re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", sent)
    if wanted is None or got is None:
        return wanted is None or sent == f"{asked.replace('=', ' ')}/*"
    end = min(int(wanted[2]), int(got[3]) - 1)
    return (int(got[1]), int(got[2])) == (int(wanted[1]), end)


def call_with_retries(url: str, doing: str, call: Callable[[], T]) -> T:
    """The result of a call. A failed call is repeated, unless the file doesn't exist or access is denied."""
    tries = _ACCESS.get().tries
    for number in range(tries):
        try:
            return call()
        except TensorClassError:
            raise
        except Exception as error:  # every store has its own errors
            _raise_if_last(error, url, doing, number, tries)
        time.sleep(PAUSE * 2**number)
    raise AssertionError  # the last round returns or raises


async def awaited_with_retries(url: str, access: Access, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a request that an event loop waits for; see `call_with_retries`."""
    for number in range(access.tries):
        try:
            return await call()
        except TensorClassError:
            raise
        except Exception as error:  # as above
            _raise_if_last(error, url, "reaching it", number, access.tries)
        await asyncio.sleep(PAUSE * 2**number)
    raise AssertionError  # the last round returns or raises


def _raise_if_last(error: Exception, url: str, doing: str, number: int, tries: int) -> None:
    """Raise the error that the user sees, if another try doesn't help or there is none."""
    url = getattr(error, "_url", url)
    _raise_if_final(error, url, doing)
    if number == tries - 1:
        times = "" if tries == 1 else f" {tries} times"
        raise OSError(errno.EIO, f"{doing} failed{times}: {_cause_text(error)}", url) from error


def _cause_text(error: Exception) -> str:
    """What went wrong; fsspec reports some failures as an absent file, with the failure as its cause."""
    cause = error.__cause__ if isinstance(error, FileNotFoundError) else error
    return f"{type(cause).__name__}: {cause!s:.200}"


def _raise_if_final(error: Exception, url: str, doing: str) -> None:
    """Raise the error for a file that is absent or closed to us; another try doesn't help."""
    kind = _kind_of(error)
    if kind is None:
        return
    number = errno.EACCES if issubclass(kind, PermissionError) else errno.ENOENT
    denied = "" if issubclass(kind, FileNotFoundError) else str(error.__cause__ or "")
    said = getattr(error, "strerror", None) or denied or str(error)[:200]
    raise kind(getattr(error, "errno", None) or number, f"{doing}: {said}", url) from error


def _status_of(error: BaseException) -> Any:
    """The status with which a server answered, as aiohttp and botocore report it; None if there is none."""
    answer = getattr(error, "response", None)
    about = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    return getattr(error, "status", about.get("HTTPStatusCode"))


def _kind_of(error: Exception) -> type[OSError] | None:
    """The error for a file that is absent or closed to us; None for a failure, also one that fsspec calls absence."""
    cause, final = error.__cause__, isinstance(error, (FileNotFoundError, PermissionError))
    status = _status_of(cause if final and cause is not None else error)
    if status in (401, 403):
        return PermissionError
    if status in (404, 410):
        return FileNotFoundError
    if not final:
        return None
    absent = cause is None or isinstance(cause, (FileNotFoundError, KeyError))
    return type(error) if absent or isinstance(error, PermissionError) else None  # type: ignore[return-value]  # one of two
