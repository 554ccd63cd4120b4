"""Groups of zarr behind URLs: what fails is asked for again, and no failure reads as zeros or as an empty group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

from tensorclass import TensorDict, from_zarr
from tensorclass.io import _access, remote_access
from tests.io._exact import assert_same
from tests.io._server import serving

DATA = TensorDict(a=torch.arange(1, 101), n={"b": torch.ones(100)}, batch_size=[100])
PLACES = {"metadata": "/zarr.json", "chunk": "/a/c/1", "listing": "/g.zarr/"}
HELPED = (503, "dropped", *[pytest.param(trouble, marks=pytest.mark.slow) for trouble in (500, 429, "stalled")])
FINAL = {401: PermissionError, 403: PermissionError, 410: FileNotFoundError}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server of a group, and no pauses between tries."""
    monkeypatch.setattr(_access, "PAUSE", 0)
    DATA.to_zarr(tmp_path / "g.zarr", chunks=(30,)).close()
    with serving(tmp_path) as found:
        yield found


def _fail(server: Any, place: str, trouble: Any, times: int) -> None:
    server.pause = 0.6 if trouble == "stalled" else 0
    server.troubles = [(PLACES[place], "dropped" if trouble == "stalled" else trouble)] * times


def _read(server: Any, retries: int = 2) -> TensorDict:
    with remote_access(timeout=0.3 if server.pause else 30, retries=retries):
        data = from_zarr(f"{server.url}/g.zarr")
    return data.to_tensordict()  # the reads after the block use its options too


@pytest.mark.parametrize("trouble", HELPED)
@pytest.mark.parametrize("place", PLACES)
def test_a_failure_is_asked_for_again(server, place, trouble):
    """`retries=` is how often; then the error names the file and says how often it was tried."""
    _fail(server, place, trouble, 1)
    assert_same(_read(server), DATA)
    assert server.troubles == []
    _fail(server, place, trouble, 1000)
    with pytest.raises(OSError, match=r"reaching it failed 3 times: \w+") as caught:
        _read(server)
    assert caught.value.filename.startswith(f"{server.url}/g.zarr/")
    assert f"{caught.value.filename}/".endswith((PLACES[place], f"{PLACES[place]}/"))
    _fail(server, place, trouble, 1000)
    with pytest.raises(OSError, match="reaching it failed: "):
        _read(server, retries=0)


@pytest.mark.parametrize("status", FINAL)
@pytest.mark.parametrize("place", PLACES)
def test_what_stays_so_is_asked_for_once(server, place, status):
    """Another try does not help against a refusal, so there is none."""
    _fail(server, place, status, 1)
    with pytest.raises(FINAL[status]) as caught:
        _read(server)
    assert server.url in str(caught.value)
    tried = [path for _, path, _ in server.requests if path.endswith(PLACES[place])]
    assert len(tried) == len(set(tried))


def test_absent_groups(server):
    """A group that isn't there is asked for once; the error has the URL."""
    with pytest.raises(FileNotFoundError, match=r"there is no zarr group.*/absent\.zarr"):
        from_zarr(f"{server.url}/absent.zarr")
    tried = server.requests
    assert len(tried) == len(set(tried))


def test_servers_that_list_nothing(server):
    """The entries of a group that we wrote are found by their names."""
    server.troubles = [("/", 404)] * 1000
    assert_same(_read(server), DATA)


def test_writes_are_repeated(monkeypatch):
    """A file system that fails now and then: the group is complete; one that always fails is an error."""
    monkeypatch.setattr(_access, "PAUSE", 0)
    kind: Any = type(fsspec.filesystem("memory"))
    known, asked = kind.pipe_file, list[str]()

    def pipe_file(store: Any, path: str, *args: Any, **options: Any) -> Any:
        asked.append(path)
        if always or len(asked) % 3 == 0:
            raise ConnectionResetError("reset")
        return known(store, path, *args, **options)

    always = False
    monkeypatch.setattr(kind, "pipe_file", pipe_file)
    DATA.to_zarr("memory://far/g.zarr", chunks=(30,))
    assert len(asked) > len(set(asked))
    assert_same(from_zarr("memory://far/g.zarr").to_tensordict(), DATA)
    always = True
    with remote_access(retries=1), pytest.raises(OSError, match="failed 2 times: ConnectionResetError"):
        DATA.to_zarr("memory://far/g.zarr", chunks=(30,))
