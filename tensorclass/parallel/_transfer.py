"""Sends one container from rank to rank: a frame of fixed size with the digest and the first bytes, then the rest.

A rank sends everything before it waits, so that a ring of ranks does not deadlock. The first time a structure is sent
to a peer, the receiver answers whether it has the same one. A rank that can't send or accept a container reports this,
so that its peer does not wait.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor

from .._flags import count
from ..errors import ArgumentError, StructureError, TensorClassError, WorkerError
from ._blocks import check_writable, parted, write
from ._links import bytes_on, device_of, peer_of, pieces, talking
from ._structure import Structure, difference
from ._wire import Parcel, take_apart

FRAME = 1 << 14
"""Bytes of the first part of a message: small containers are one part."""
_HEAD = 64
_KEPT = 1 << 24
"""The memory of messages up to this many bytes is kept for the next message."""
_MAGIC = 0x7463_0001
_PLAIN, _WHOLE, _PROBLEM = 0, 1, 2


class Block:
    """The memory of a message: a head, then the values of the leaves, then text.

    Args:
        structure: what is sent or received.
        device: the device that the group sends from.
        text: a description of the structure, for a peer that doesn't know it.
        apart: the part after the frame has its own tag, that of the structure, so that a receiver that knows the
            structure can receive both at the same time.
    """

    def __init__(
        self, structure: Structure, device: torch.device, text: bytes = b"", apart: bool = False
    ) -> None:  # fmt: skip
        size = sum([run.room for run in structure.runs])
        self.digest = structure.digest
        self.whole, room = _message(_PLAIN, structure.digest, size, text, bool(text), device, apart)
        self.expected = [_MAGIC, _PLAIN, structure.digest, size, len(text), bool(text), apart, 0]
        self.views = parted(room, structure.leaves, structure.runs)
        self.parts = parts_of(self.whole)


def parts_of(whole: Tensor) -> list[Tensor]:
    """The parts of a message, in the order in which they are sent."""
    return [whole[:FRAME], *pieces(whole[FRAME:])]


class _Known:
    """What this rank knows about its peers."""

    def __init__(self) -> None:
        self.agreed: set[tuple[int, int]] = set()
        """Peers and digests that they have accepted."""
        self.heard: dict[tuple[int, int], Any] = {}
        """Structures that peers have sent, by peer and digest."""
        self.answers: list[tuple[Any, Tensor]] = []
        """Answers that may not have been sent completely."""
        self.ahead: dict[tuple[int, int], Any] = {}
        """By peer and tag, the block and the pending receives after the frame, for messages that have not arrived."""
        self._spare: list[Block] = []

    def lent(self, structure: Structure, device: torch.device) -> Block:
        """Take memory for a message.

        It is reused, since fresh pages take as long as a copy, and new views even longer.
        """
        for place, block in enumerate(self._spare):
            if block.digest == structure.digest:
                return self._spare.pop(place)
        return Block(structure, device, apart=device.type == "cpu")  # other backends have no tags

    def returned(self, block: Block | None) -> None:
        """Give memory back that nothing reads or writes any more."""
        if block is not None and len(block.whole) <= _KEPT:
            self._spare = [*self._spare[-3:], block]


_KNOWN: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
_LAST: WeakValueDictionary[Any, Receiving] = WeakValueDictionary()
"""By group, peer and tag, the last transfer that was requested; transfers end in that order."""


def _known(group: Any) -> _Known:
    return _KNOWN.setdefault(group, _Known())


def _message(
    kind: int, digest: int, values: int, text: bytes, ask: bool, device: torch.device, apart: bool = False
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A message with its head (magic, kind, digest, sizes, `ask` and `apart`), and the memory for its values."""
    whole = bytes_on(device, max(FRAME, _HEAD + values + len(text)))
    head = torch.tensor([_MAGIC, kind, digest, values, len(text), ask, apart, 0], dtype=torch.int64)
    whole[:_HEAD].view(torch.int64).copy_(head)
    if text:
        whole[_HEAD + values : _HEAD + values + len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return whole, whole[_HEAD : _HEAD + values]


def outgoing(
    batch: Any, structure: Structure, ask: bool, device: torch.device, known: _Known | None = None
) -> tuple[list[Tensor], Block | None]:  # fmt: skip
    """A container as parts of a message, and the memory that can be reused."""
    text = pickle.dumps(structure.rows) if ask else b""
    if structure.plain:
        block = Block(structure, device, text) if ask or known is None else known.lent(structure, device)
        write(block.views, structure.leaves)
        return block.parts, None if ask else block
    return parts_of(whole_message(packed(batch), device, structure.digest, text)), None


def whole_message(raw: Tensor, device: torch.device, digest: int = 0, text: bytes = b"") -> Tensor:
    """The result of `packed` as a message."""
    whole, room = _message(_WHOLE, digest, len(raw), text, bool(text), device)
    room.copy_(raw)
    return whole


def problem_message(error: Exception, device: torch.device) -> Tensor:
    """The reason why nothing can be sent, as a message."""
    return _message(_PROBLEM, 0, 0, f"{type(error).__name__}: {error}".encode()[:4096], False, device)[0]


def packed(batch: Any) -> Tensor:
    """A container with its structure, as bytes: uint8 `[n]`."""
    parcel = take_apart(batch)
    about = pickle.dumps((parcel.pickled, parcel.shapes))
    start = -(-(8 + len(about)) // 64) * 64
    raw = torch.zeros(start + parcel.size, dtype=torch.uint8, device="cpu")
    raw[:8].view(torch.int64)[0] = len(about)
    raw[8 : 8 + len(about)] = torch.frombuffer(bytearray(about), dtype=torch.uint8)
    if parcel.shapes:
        parcel.fill(raw[start:])
    return raw


def unpacked(raw: Tensor) -> Any:
    """The container of `packed`, whose tensors are views of the bytes."""
    raw = raw.cpu()
    if raw.storage_offset() % 64:
        raw = raw.clone()
    size = int(raw[:8].view(torch.int64)[0])
    pickled, shapes = pickle.loads(raw[8 : 8 + size].numpy().tobytes())
    return Parcel(pickled, shapes, []).rebuilt(raw[-(-(8 + size) // 64) * 64 :])


class Sending:
    """A started transfer; `wait()` ends it."""

    def __init__(self, batch: Any, group: Any, peer: int, tag: int) -> None:
        self._group, self._peer, self._tag = group, peer, tag
        device = device_of(group)
        self._problem: Exception | None = None
        self._asked, self._block = False, None
        try:
            structure = Structure(batch)
            self._digest = structure.digest
            self._asked = (peer, self._digest) not in _known(group).agreed
            self._parts, self._block = outgoing(batch, structure, self._asked, device, _known(group))
        except (TensorClassError, RuntimeError, TypeError) as error:
            self._problem, self._asked = error, False
            self._parts = [problem_message(error, device)]
        with talking(group, f"send to rank {peer}"):
            rest = 2 * tag if self._block is None else _tag_of(self._block.expected, tag)
            self._works = [group.send([self._parts[0]], peer, 2 * tag)]
            self._works += [group.send([part], peer, rest) for part in self._parts[1:]]
            if self._asked:
                self._answer = bytes_on(device, FRAME)
                self._works.append(group.recv([self._answer], peer, 2 * tag + 1))

    def wait(self, timeout: Any = None) -> bool:
        """End the transfer.

        Raises:
            StructureError: if the receiver has another structure, or could not accept the values.
            WorkerError: if it doesn't answer.
        """
        works, self._works = self._works, []
        with talking(self._group, f"send to rank {self._peer}"):
            for work in works:
                work.wait()
        if works:
            _known(self._group).returned(self._block)
        if self._problem is not None:
            raise self._problem
        if self._asked and works:
            head = _head(self._answer)
            if head[1] == _PROBLEM:
                raise StructureError(_text(self._answer, head).decode())
            _known(self._group).agreed.add((self._peer, self._digest))
        return True


def _tag_of(head: list[int], tag: int) -> int:
    """The tag of the part after a frame."""
    return 2**30 + 2 + (head[2] + tag) % (2**30 - 4) if head[6] else 2 * tag


def _head(frame: Tensor) -> list[int]:
    head = frame[:_HEAD].view(torch.int64).tolist()
    if head[0] != _MAGIC:
        raise WorkerError("what came is not a container: the ranks do not call send and recv in turn, or share a tag")
    return head


def _text(whole: Tensor, head: list[int]) -> bytes:
    begin = _HEAD + head[3]
    return whole[begin : begin + head[4]].cpu().numpy().tobytes() if head[4] else b""


class Message(NamedTuple):
    """A received message."""

    kind: int
    digest: int
    values: Tensor
    text: bytes
    ask: bool

    @property
    def is_problem(self) -> bool:
        """Whether it gives a reason why there is no container."""
        return self.kind == _PROBLEM


class Incoming:
    """A message that is being received.

    Args:
        group: the process group.
        peer: the sender.
        tag: the tag of the sender.
        block: the memory that receives it, if it is the expected message.
    """

    def __init__(self, group: Any, peer: int, tag: int, block: Block | None = None) -> None:
        self._group, self._peer, self._tag, self.block = group, peer, tag, block
        known = _known(group)
        self._works: list[Any] = []
        with talking(group, f"recv from rank {peer}"):
            if block is not None and block.expected[6] and (peer, block.digest) in known.heard:
                self._place = peer, _tag_of(block.expected, tag)
                self.block, self._works = known.ahead.pop(self._place, None) or (block, self._await(block.parts[1:]))
            self._frame = bytes_on(device_of(group), FRAME) if self.block is None else self.block.parts[0]
            self._work = group.recv([self._frame], peer, 2 * tag)

    def _await(self, parts: Sequence[Tensor], tag: int | None = None) -> list[Any]:
        tag = self._place[1] if tag is None else tag
        return [self._group.recv([part], self._peer, tag) for part in parts]

    def message(self) -> Message | None:
        """The whole message; None if it is in the block."""
        whole, block, works = self._frame, self.block, self._works
        with talking(self._group, f"recv from rank {self._peer}"):
            self._work.wait()
            head = _head(whole)
            if block is not None and head == block.expected:
                for work in works:
                    work.wait()
                return None
            ahead = _known(self._group).ahead
            if works and block is not None:
                ahead[self._place] = block, works
            size, tag = _HEAD + head[3] + head[4], _tag_of(head, self._tag)
            if size > FRAME:
                other, others = ahead.pop((self._peer, tag), (None, []))
                whole = bytes_on(whole.device, size) if other is None else other.whole
                whole[:FRAME] = self._frame
                for work in others or self._await(pieces(whole[FRAME:]), tag):
                    work.wait()
        return Message(head[1], head[2], whole[_HEAD : _HEAD + head[3]], _text(whole, head), bool(head[5]))


class Receiving:
    """A started receive; `wait()` receives and writes."""

    def __init__(self, batch: Any, group: Any, peer: int, tag: int) -> None:
        self._batch, self._group, self._peer, self._tag = batch, group, peer, tag
        key = (id(group), peer, tag)
        self._before = _LAST.get(key)
        self._done = False
        _LAST[key] = self

    def wait(self, timeout: Any = None) -> bool:
        """Receive, and write into the container. Transfers that were requested earlier end first.

        Raises:
            StructureError: for another structure; names the first field that differs.
            WorkerError: if the sender doesn't answer.
        """
        before, self._before = self._before, None
        if before is not None:
            before.wait()
        if not self._done:
            self._done = True
            self._receive()
        return True

    def _receive(self) -> None:
        group, peer, known = self._group, self._peer, _known(self._group)
        problem: Exception | None = None
        structure: Structure | None = None
        block: Block | None = None
        try:
            structure = Structure(self._batch)
            check_writable(structure.leaves, structure.names)
            block = known.lent(structure, device_of(group)) if structure.plain else None
        except (TensorClassError, RuntimeError, TypeError) as error:
            problem = error
        incoming = Incoming(group, peer, self._tag, block)
        message, block = incoming.message(), incoming.block
        if message is None and block is not None and structure is not None:
            write(structure.leaves, block.views)
            known.returned(block)
            return
        assert message is not None  # it is None only for a block
        if message.is_problem:
            raise WorkerError(f"rank {peer} could not send its container: {message.text.decode()}")
        heard = known.heard
        if message.ask:
            heard[peer, message.digest] = pickle.loads(message.text)
        if problem is None and structure is not None and structure.digest != message.digest:
            theirs = heard.get((peer, message.digest), ())
            where = difference(structure.rows, theirs, f"rank {group.rank()}", f"rank {peer}, which sent it")
            problem = StructureError(f"recv: the structures differ: {where}; nothing was written")
        if message.ask:
            self._reply("" if problem is None else f"rank {group.rank()} refused the container: {problem}")
        if problem is not None or structure is None:
            raise problem or WorkerError("nothing was received")
        take(self._batch, structure, message)

    def _reply(self, text: str) -> None:
        """Answer without waiting for the sender."""
        known = _known(self._group)
        kind = _PROBLEM if text else _PLAIN
        whole, _ = _message(kind, 0, 0, text.encode()[: FRAME - 2 * _HEAD], False, device_of(self._group))
        known.answers = [pair for pair in known.answers if not pair[0].is_completed()]
        known.answers.append((self._group.send([whole], self._peer, 2 * self._tag + 1), whole))


def take(batch: Any, structure: Structure, message: Message) -> None:
    """Write a received message of this structure into a container."""
    if message.kind == _PLAIN:
        write(structure.leaves, parted(message.values, structure.leaves, structure.runs))
        return
    with torch.no_grad():
        batch.copy_(unpacked(message.values))


# ---- the methods -----------------------------------------------------------------------------------------------------


def piped(pipe: Any, name: str) -> Callable[..., Any]:
    """A method of a pipe.

    Raises:
        ArgumentError: for an object without this method.
    """
    found = getattr(pipe, name, None)
    if not callable(found):
        raise ArgumentError(
            f"{name} goes through a pipe, an object with `{name}`; got {pipe!r:.80}. Ranks: send and recv"
        )
    return found  # type: ignore[no-any-return]  # of the pipe


def _tag(init_tag: int) -> int:
    count(init_tag=init_tag)
    if not 0 <= init_tag < 2**29:
        raise ArgumentError(f"init_tag is a number from 0, below 2**29, got {init_tag!r:.40}")
    return init_tag


def isend(batch: Any, dst: Any, group: Any, group_dst: Any, init_tag: int, early: bool) -> Any:
    """See `TensorDictBase.isend`."""
    found, peer = peer_of(dst, group, group_dst, "dst")
    sending = Sending(batch, found, peer, _tag(init_tag))
    if early:
        return [sending]
    sending.wait()
    return init_tag


def send(batch: Any, dst: Any, group: Any, group_dst: Any, init_tag: int) -> None:
    """See `TensorDictBase.send`."""
    if callable(getattr(dst, "send", None)):
        dst.send(batch)
        return
    isend(batch, dst, group, group_dst, init_tag, False)


def irecv(batch: Any, src: Any, group: Any, group_src: Any, init_tag: int, early: bool) -> Any:
    """See `TensorDictBase.irecv`."""
    found, peer = peer_of(src, group, group_src, "src")
    receiving = Receiving(batch, found, peer, _tag(init_tag))
    if early:
        return [receiving]
    receiving.wait()
    return None


def recv(batch: Any, src: Any, group: Any, group_src: Any, init_tag: int) -> Any:
    """See `TensorDictBase.recv`."""
    if callable(getattr(src, "recv", None)):
        return src.recv(batch)
    irecv(batch, src, group, group_src, init_tag, False)
    return init_tag
