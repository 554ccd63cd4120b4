"""Files with chosen headers, and what may come of a damaged one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tensorclass.errors import FileFormatError, SchemaError
from tensorclass.io import _format

EXPECTED = (FileFormatError, OSError, SchemaError)
"""What reading a damaged file may raise."""


def split(raw: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the payload of a file."""
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def join(header: Any, payload: bytes) -> bytes:
    """A file from a header and a payload; a text is written as it is."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + payload


def change_meta(path: Path, change: Any) -> None:
    """Change our metadata, as somebody else could; the checksum of the header is made anew."""
    header, payload = split(path.read_bytes())
    meta = json.loads(header["__metadata__"]["tensorclass"])
    change(meta)
    meta["header_crc32"] = _format.BLANK
    header["__metadata__"]["tensorclass"] = json.dumps(meta, separators=(",", ":"))
    text = json.dumps(header, separators=(",", ":")).encode()
    whole = len(text).to_bytes(8, "little") + text
    path.write_bytes((_format.seal(whole) if text.startswith(_format.START) else whole) + payload)
