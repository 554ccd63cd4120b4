"""Files that a writer of datasets replaces as a whole: on the disk, or in a store, where two writers are detected."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import rmtree
from tempfile import mkdtemp

from .._places import is_url
from ._atomic import Target, replacing
from ._format import Part
from ._manifest import NAME, read_small, sealed
from ._remote import Version, read_version, refuse_http, replace_version, upload


class Document:
    """A small file that is replaced as a whole. One writer at a time: a lock of the folder sees to it.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def find(self) -> bytes | None:
        """The content, or None if there is no file."""
        with suppress(FileNotFoundError):
            return read_small(self.path)
        return None

    def replace(self, body: Part) -> None:
        """Replace the content, sealed.

        Raises:
            OSError: if the file can't be used. The message names the path.
        """
        with replacing(self.path) as target:
            target.write([_sealed_part(body)])


class RemoteDocument(Document):
    """A small file in a store, replaced only if it is what this writer last read or wrote."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        refuse_http(path)
        self._seen = Version(None, None)

    def find(self) -> bytes | None:
        """The content, or None if there is no file."""
        self._seen = read_version(self.path)
        return self._seen.data

    def replace(self, body: Part) -> None:
        """Replace the content.

        Raises:
            BlockingIOError: if another writer has replaced it.
        """
        found = replace_version(self.path, self._seen, _sealed_part(body))
        if found is None:
            what = "another writer has changed it; one of them continues, or each passes a `writer_id=` of its own"
            raise BlockingIOError(errno.EAGAIN, what, self.path)
        self._seen = found


def _sealed_part(body: Part) -> bytes:
    return sealed(body.model_dump_json(exclude_none=True))


def document_at(folder: str, name: str = NAME) -> Document:
    """The file of a name in a folder or under a URL."""
    path = os.path.join(folder, name)
    return RemoteDocument(path) if is_url(path) else Document(path)


class UploadTarget(Target):
    """A file that is written to the local disk, and uploaded as a whole by `commit`."""

    def __init__(self, url: str) -> None:
        self._url, self._local = url, mkdtemp(prefix="tensorclass-")
        super().__init__(os.path.join(self._local, os.path.basename(url)), sweep=False)

    def commit(self) -> None:
        """Upload the file."""
        upload(os.path.join(self.folder, self.temporary), self._url)

    def end(self) -> None:
        """Close all descriptors, and remove the local file."""
        super().end()
        if os.getpid() == self._owner:
            rmtree(self._local, ignore_errors=True)


def target_at(path: str) -> Target:
    """A file to write under a temporary name, in a folder or under a URL."""
    return UploadTarget(path) if is_url(path) else Target(path, sweep=False)


@contextmanager
def replacing_at(path: str) -> Iterator[Target]:
    """Write a file or a URL in a block; at the end of the block it is replaced as a whole, or not at all.

    Raises:
        UnsupportedOperationError: for http.
        OSError: if it can't be written. It names the path.
    """
    if not is_url(path):
        with replacing(path) as target:
            yield target
        return
    refuse_http(path)
    target = UploadTarget(path)
    try:
        target.start()
        yield target
        target.commit()
    finally:
        target.end()
