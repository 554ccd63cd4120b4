"""The header of a file: eight bytes of length, then JSON; the payload follows without gaps. Files are not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed leaves it out
from json.encoder import encode_basestring_ascii as quoted
from math import prod
from typing import Any, NamedTuple

from ..errors import ArgumentError, FileFormatError
from ._dtypes import BITS, UNREADABLE
from ._names import RESERVED

ALIGNMENT = 64
"""Bytes: a cache line, and more than any vector load needs. The payload starts at a multiple of it."""
PAGE = 4096
"""Bytes that a system reads at once. A large payload starts at a multiple of it."""
_LARGE = 1 << 20
MAX_HEADER = 100_000_000
"""The longest header in bytes, as in the safetensors package."""
MAX_RANK = 64
_HUGE = 2**62
_OPENING = f'{{"{RESERVED}":{{"'
KEYS = {"dtype", "shape", "data_offsets"}


class TensorSlot(NamedTuple):
    """Where a tensor is stored: dtype name, shape, first byte and end, counted from the start of the file."""

    code: str
    shape: list[int]
    begin: int
    end: int


class Header(NamedTuple):
    """The content of a header: its metadata, and the tensors in the order of the payload."""

    metadata: dict[str, str]
    tensors: dict[str, TensorSlot]
    start: int
    """The byte at which the payload starts."""


def alignment_class(size: int) -> int:
    """The largest power of two that divides a size in bytes, up to `PAGE`.

    Tensors are sorted by it, in descending order.

    Each tensor then starts at a multiple of its class, which is at least the size of its elements, without gaps.
    """
    return min(size & -size, PAGE) if size else PAGE


def encode(metadata: dict[str, str], rows: Iterable[tuple[str, str, Sequence[int], int]]) -> bytes:
    """The header of consecutive tensors, each given by name, dtype, shape and size in bytes."""
    parts = []
    if metadata:
        texts = ",".join(f"{quoted(key)}:{quoted(text)}" for key, text in metadata.items())
        parts.append(f'"{RESERVED}":{{{texts}}}')
    end = 0
    for name, code, shape, size in rows:
        begin, end = end, end + size
        sizes = ",".join(map(str, shape))
        parts.append(f'{quoted(name)}:{{"dtype":"{code}","shape":[{sizes}],"data_offsets":[{begin},{end}]}}')
    text = f"{{{','.join(parts)}}}".encode("ascii")
    text += b" " * (-(8 + len(text)) % (ALIGNMENT if end < _LARGE else PAGE))
    return len(text).to_bytes(8, "little") + text


def length(raw: bytes, size: int, path: str) -> int:
    """The length of the header, from the first eight bytes of a file of `size` bytes."""
    if len(raw) < 8:
        raise FileFormatError(
            f"a file starts with 8 bytes that tell the length of its header, this one has {size}", path, 0
        )
    found = int.from_bytes(raw, "little")
    if found > MAX_HEADER:
        raise FileFormatError(
            f"not a safetensors file: its header would have {found} bytes, {MAX_HEADER} at most", path, 0
        )
    if found > size - 8:
        raise FileFormatError(f"its header has {found} bytes and the file ends after {size}: it is cut off", path, 8)
    return found


def load_json(raw: bytes | str, path: str, what: str, offset: int) -> Any:
    """Parse JSON without repeated keys.

    Raises:
        FileFormatError: for anything else, and for text that is nested too deeply.
    """
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{what} is not UTF-8: {error.reason}", path, offset + error.start) from None
    except json.JSONDecodeError as error:
        raise FileFormatError(f"{what} is not JSON: {error.msg}", path, offset + error.pos) from None
    except (ValueError, OverflowError) as error:  # a repeated key, a number of very many digits
        raise FileFormatError(f"{what} is refused: {error}", path, offset) from None
    except RecursionError:
        raise FileFormatError(f"{what} is nested too deeply", path, offset) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # adds
        raise ArgumentError(f"the key {twice!r:.80} is given twice")
    return found


def _refuse_constant(text: str) -> Any:
    raise ArgumentError(f"{text} is not a number of JSON")


def parse(raw: bytes, size: int, path: str) -> Header:
    """Parse and check the header of a file of `size` bytes: the tensors fill the payload without gaps.

    Args:
        raw: The JSON, without its length prefix.
        size: The size of the file in bytes.
        path: For messages.

    Raises:
        FileFormatError: for the first fault that is found.
    """
    found = _parse_quickly(raw)
    if found is None:
        found = load_json(raw, path, "its header", 8)
    if type(found) is not dict:
        raise FileFormatError(f"its header is a JSON object, got {_kind(found)}", path, 8)
    metadata = found.pop(RESERVED, {})
    if type(metadata) is not dict or not all([type(text) is str for text in metadata.values()]):
        raise FileFormatError(f"`{RESERVED}` is an object of texts", path, 8)
    start = 8 + len(raw)
    return Header(metadata, _slots(found, start, size, path), start)


def _parse_quickly(raw: bytes) -> dict[str, Any] | None:
    """Parse a header in the usual spelling, twice as fast as `load_json`; None for any other spelling.

    The description of a tensor has ten quotes. If there are no more, and nothing is escaped, no key is repeated.
    """
    try:
        text = raw.decode("ascii")
        metadata: dict[str, str] = {}
        if text.startswith(_OPENING):
            key, at = scanstring(text, len(_OPENING))
            if text[at : at + 2] != ':"':
                return None
            metadata[key], end = scanstring(text, at + 2)
            if text[end : end + 2] != "},":
                return None
            text = "{" + text[end + 2 :]
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict or text.count('"') != 10 * len(found) or "\\" in text or RESERVED in found:
        return None
    return {RESERVED: metadata, **found}


def _slots(found: dict[str, Any], start: int, size: int, path: str) -> dict[str, TensorSlot]:
    """The tensors, each checked. An unusual one is checked again, to find the message."""
    tensors: dict[str, TensorSlot] = {}
    bits, new = BITS, tuple.__new__  # thousands of tensors: this loop is what opening a file takes
    end, in_order = start, True
    code, shape, first, last, count = "", list[int](), 0, 0, 0
    for name, entry in found.items():
        try:
            code, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
            count = bits[code]
            whole = first.__class__ is int and last.__class__ is int and 0 <= first <= last < _HUGE and len(entry) == 3
            if shape.__class__ is not list or len(shape) > MAX_RANK:
                whole = False
            for n in shape:
                whole = whole and n.__class__ is int and 0 <= n < _HUGE
                count = count * n if whole else 0
        except (KeyError, TypeError, ValueError):
            whole = False
        if not whole or (last - first) * 8 != count:
            raise FileFormatError(_wrong_row(entry), path, 8, name)
        begin = start + first
        in_order = in_order and begin == end
        end = start + last
        tensors[name] = new(TensorSlot, (code, shape, begin, end))
    if in_order and end == size:
        return tensors
    rows = sorted(tensors.items(), key=lambda row: row[1][2:])
    _check_cover(rows, start, size, path)
    return dict(rows)


def _wrong_row(entry: Any) -> str:
    """The fault in the description of a tensor, in words."""
    if type(entry) is not dict or entry.keys() != KEYS:
        given = f"the keys {[*entry]!r:.80}" if type(entry) is dict else _kind(entry)
        return f"a tensor is described by dtype, shape and data_offsets, got {given}"
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if type(code) is not str or code not in BITS:
        more = ", which torch has no dtype for" if code in UNREADABLE else f"; known are {', '.join(BITS)}"
        return f"the dtype {code!r:.40} can't be read{more}"
    if not _sizes(shape) or len(shape) > MAX_RANK:
        return f"a shape is a list of at most {MAX_RANK} sizes from 0, got {shape!r:.80}"
    if not _sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return f"data_offsets are two numbers from 0, the first not above the second, got {offsets!r:.80}"
    bits = prod(shape) * BITS[code]
    needed = f"{bits // 8}" if bits % 8 == 0 else f"{bits / 8}"
    held = offsets[1] - offsets[0]
    return f"{code} of shape {shape!r:.80} has {needed} bytes, data_offsets {offsets!r:.80} hold {held}"


def _sizes(given: Any) -> bool:
    return type(given) is list and all([type(n) is int and 0 <= n < _HUGE for n in given])


def _check_cover(rows: Sequence[tuple[str, TensorSlot]], start: int, size: int, path: str) -> None:
    """Refuse tensors that leave gaps in the payload, or overlap."""
    end, before = start, ""
    for name, slot in rows:
        if slot.begin != end:
            what = f"overlaps `{before}`" if slot.begin < end else "has unused bytes in front of it"
            raise FileFormatError(f"the data of a tensor {what}", path, slot.begin, name)
        end, before = slot.end, name
    if end > size:
        raise FileFormatError(f"its tensors end at byte {end}, the file ends after {size}: it is cut off", path, size)
    if end < size:
        raise FileFormatError(f"{size - end} bytes follow the last tensor", path, end)


def _kind(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"
