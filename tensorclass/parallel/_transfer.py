"""Sends one container from rank to rank: a frame of fixed size with the digest and the first bytes, then the rest.

A rank sends everything before it waits, so that a ring of ranks does not deadlock. The first time a structure is sent
to a peer, the receiver answers whether it has the same one. A rank that can't send or accept a container reports this,
so that its peer does not wait.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor

from ..core import TensorCollection, Turn, in_turn, release_in_forks
from ..errors import ArgumentError, HeldError, StructureError, WorkerError
from ..io._memmap import tensors_in
from ._blocks import Views, check_writable, write
from ._links import BUCKET, bytes_on, device_of, peer_of, talking
from ._structure import Structure, check_local, difference
from ._wire import Parcel, take_apart

FRAME = 1 << 14
"""Bytes of the first part of a message: small containers are one part."""
HEAD = 64
_KEPT = 1 << 24
"""The memory of messages up to this many bytes is kept for the next message."""
_MAGIC = 0x7463_0001
_MOST = 8
"""The number of structures whose views are kept, and of spare blocks."""
_ANSWERS, _STRUCTURES = 64, 1024
"""The numbers of answers whose memory is kept, and of structures that are remembered for all peers."""
_PLAIN, _WHOLE, _PROBLEM = 0, 1, 2
_FRAME, _ONCE = 0, -1


class MessageBlock:
    """The memory of a message: a head, then the values of the leaves, then text.

    Args:
        whole: the memory.
        digest: of the structure in the head; `_FRAME` for a frame, `_ONCE` for memory that isn't reused.
        apart: the part after the frame has its own tag, that of the structure, so that a receiver that knows the
            structure can receive both at the same time.
    """

    def __init__(self, whole: Tensor, digest: int = _ONCE, apart: bool = False) -> None:
        self.whole, self.digest, self.apart = whole, digest, apart
        self.parts = [whole[:FRAME], *(whole[FRAME:].split(BUCKET) if len(whole) > FRAME else ())]
        self.head = whole[:HEAD].view(torch.int64)
        self._views: dict[int, Views] = {}

    def views(self, structure: Structure) -> Views:
        """Views of the values, which are kept: new ones take longer than a copy."""
        if structure.digest not in self._views:
            if len(self._views) == _MOST:
                self._views.clear()
            self._views[structure.digest] = Views(self.whole[HEAD:], structure.leaves, structure.runs)
        return self._views[structure.digest]


class _Known:
    """What this rank knows about its peers."""

    def __init__(self) -> None:
        self.agreed: set[tuple[int, int]] = set()
        """Peers and digests that they have accepted."""
        self.heard: dict[tuple[int, int], Any] = {}
        """Structures that peers have sent, by peer and digest."""
        self.answers: deque[tuple[Any, Tensor]] = deque()
        """Answers that may not have been sent completely."""
        self.ahead: dict[tuple[int, int], tuple[MessageBlock, list[Any]]] = {}
        """By peer and tag the blocks and the works of what is awaited behind frames that have not come."""
        self._spare: list[MessageBlock] = []
        self._lock = release_in_forks(Lock())  # threads may use one group, each with its own tags

    def lent(self, device: torch.device, structure: Structure | None = None) -> MessageBlock:
        """Take memory for a message, or a frame; it is reused, since fresh pages take as long as a copy."""
        digest = _FRAME if structure is None else structure.digest
        with self._lock:
            for place, block in enumerate(self._spare):
                if block.digest == digest:
                    return self._spare.pop(place)
        if structure is None:
            return MessageBlock(bytes_on(device, FRAME), _FRAME)
        apart = _tags(device)
        return MessageBlock(_message(_PLAIN, device, digest, structure.size, apart=apart), digest, apart)

    def returned(self, block: MessageBlock) -> None:
        """Give memory back that nothing reads or writes any more."""
        if block.digest != _ONCE and len(block.whole) <= _KEPT:
            with self._lock:
                self._spare = [*self._spare[1 - _MOST :], block]

    def answer(self, group: Any, whole: Tensor, peer: int, tag: int) -> None:
        """Send an answer without waiting for its receiver; its memory is kept until many others have followed."""
        self.answers.append((group.send([whole], peer, 2 * tag + 1), whole))
        if len(self.answers) > _ANSWERS:  # the peer has asked long ago; gloo says that it is done only to who waits
            with suppress(RuntimeError):  # the peer is dead, as the next transfer says
                self.answers.popleft()[0].wait()


_KNOWN: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
_LAST: WeakValueDictionary[Any, Receiving] = WeakValueDictionary()
"""By group, peer and tag, the last transfer that was requested; transfers end in that order."""
_POSTED: dict[tuple[int, ...], deque[Receiving]] = {}
"""By process, group, peer and tag, the transfers that a thread will end."""
_ENQUEUING = Turn()


def _tags(device: torch.device) -> bool:
    """Whether the backend tells messages by their tags."""
    return device.type == "cpu"


def known_of(group: Any) -> _Known:
    return _KNOWN.get(group) or _KNOWN.setdefault(group, _Known())


def _message(
    kind: int,
    device: torch.device,
    digest: int = 0,
    size: int = 0,
    text: bytes = b"",
    ask: bool = False,
    apart: bool = False,
) -> Tensor:
    """A message with its head (magic, kind, digest, sizes, whether to answer, `apart`), and memory for its values."""
    whole = bytes_on(device, max(FRAME, HEAD + size + len(text)))
    head = torch.tensor([_MAGIC, kind, digest, size, len(text), ask, apart, 0], dtype=torch.int64)
    whole[:HEAD].view(torch.int64).copy_(head)
    if text:
        whole[HEAD + size : HEAD + size + len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return whole


def outgoing(batch: Any, structure: Structure, ask: bool, group: Any) -> MessageBlock:
    """A container as a message."""
    device, rows = device_of(group), structure.rows if ask else ()
    if not structure.plain:
        return _whole(batch, device, structure.digest, rows)
    if ask:
        text = pickle.dumps((rows, b"", []))
        block = MessageBlock(_message(_PLAIN, device, structure.digest, structure.size, text, True))
    else:
        block = known_of(group).lent(device, structure)
    block.views(structure).fill(structure.leaves)
    return block


def _whole(value: Any, device: torch.device, digest: int = 0, rows: Any = ()) -> MessageBlock:
    """Any picklable object as a message that includes its structure."""
    parcel = take_apart(value)
    text = pickle.dumps((rows, parcel.pickled, parcel.shapes))
    block = MessageBlock(_message(_WHOLE, device, digest, parcel.size, text, bool(rows)))
    if parcel.shapes:
        parcel.fill(block.whole[HEAD : HEAD + parcel.size])
    return block


def problem_message(error: BaseException, device: torch.device) -> MessageBlock:
    """The reason why nothing can be sent, as a message."""
    return MessageBlock(_message(_PROBLEM, device, text=f"{type(error).__name__}: {error}".encode()[:4096]))


class Transfer:
    """A started transfer; `wait()` ends it. Threads may share it: all calls of `wait()` have the same outcome.

    Args:
        group: the process group.
        doing: what this rank does, for messages.
    """

    def __init__(self, group: Any, doing: str) -> None:
        self._group, self._doing, self._turn = group, doing, Turn()
        self._ended = False
        self._error: HeldError | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """End the transfer. Another call has the same outcome.

        Args:
            timeout: how long to wait for the peer; by default the timeout of the group.

        Raises:
            StructureError: if a container of another structure is on the other side; names the first field that
                differs.
            WorkerError: if a rank doesn't answer.
        """
        if timeout is not None and not isinstance(timeout, timedelta):
            raise ArgumentError(f"timeout is a datetime.timedelta, got {timeout!r:.60}")
        self._await_end(timeout)
        if self._error is not None:
            self._error.reraise()
        return True

    def _await_end(self, timeout: timedelta | None) -> None:
        self.end(timeout)

    @in_turn
    def end(self, timeout: timedelta | None) -> None:
        """End the transfer, and keep its error for `wait`."""
        if self._ended:
            return
        self._ended = True
        self._error = HeldError(WorkerError(f"{self._doing}: the wait for it was interrupted"))
        try:
            self._end(timeout)
            self._error = None
        except Exception as error:  # `wait` raises it
            self._error = HeldError(error)

    def _end(self, timeout: timedelta | None) -> None: ...


def wait_for_requests(works: list[Any], timeout: timedelta | None = None) -> None:
    """Wait for requests of the backend."""
    for work in works:
        work.wait() if timeout is None else work.wait(timeout)


class Sending(Transfer):
    """A started `isend`."""

    def __init__(self, batch: Any, group: Any, peer: int, tag: int) -> None:
        super().__init__(group, f"send to rank {peer}")
        self._peer, self._known = peer, known_of(group)
        self._problem: HeldError | None = None
        self._asked = False
        try:
            structure = Structure(batch)
            self._digest = structure.digest
            self._asked = (peer, self._digest) not in self._known.agreed
            self._block = outgoing(batch, structure, self._asked, group)
        except Exception as error:  # `wait` raises it; the other rank is told
            self._problem, self._asked = HeldError(error), False
            self._block = problem_message(error, device_of(group))
        with talking(group, self._doing):
            self._works = post_message(group, self._block, peer, tag)
            if self._asked:
                self._answer = bytes_on(device_of(group), FRAME)
                self._works.append(group.recv([self._answer], peer, 2 * tag + 1))

    def _end(self, timeout: timedelta | None) -> None:
        """Wait until all is sent and the other rank has accepted the structure."""
        with talking(self._group, self._doing):
            wait_for_requests(self._works, timeout)
        self._known.returned(self._block)
        if self._problem is not None:
            self._problem.reraise()
        if self._asked:
            answer = message_in(self._answer)
            if answer.kind == _PROBLEM:
                raise StructureError(answer.text.decode())
            if len(self._known.agreed) >= _STRUCTURES:
                self._known.agreed.clear()  # the next transfers ask again
            self._known.agreed.add((self._peer, self._digest))


def _tag_of(digest: int, apart: bool, tag: int) -> int:
    """The tag of the part after a frame."""
    return 2**30 + 2 + (digest + tag) % (2**30 - 4) if apart else 2 * tag


def post_message(group: Any, block: MessageBlock, peer: int, tag: int) -> list[Any]:
    """Start to send a message: first its frame, then the rest."""
    rest = _tag_of(block.digest, block.apart, tag)
    return [group.send([part], peer, rest if place else 2 * tag) for place, part in enumerate(block.parts)]


def sent(group: Any, block: MessageBlock, peer: int, tag: int) -> None:
    """Send a message, and wait for it."""
    wait_for_requests(post_message(group, block, peer, tag))
    known_of(group).returned(block)


def head_of(numbers: Tensor) -> list[int]:
    """The head of a message.

    Raises:
        WorkerError: if this is not a message.
    """
    head: list[int] = numbers.tolist()
    if head[0] != _MAGIC:
        raise WorkerError("what came is not a container: the ranks do not call send and recv in turn, or share a tag")
    return head


class Message(NamedTuple):
    """A received message."""

    block: MessageBlock
    kind: int
    digest: int
    size: int
    length: int
    ask: int
    apart: int

    @property
    def text(self) -> bytes:
        """The text after the values."""
        return self.block.whole[HEAD + self.size :][: self.length].cpu().numpy().tobytes()

    def check(self, rank: int) -> None:
        """Check that it contains a container.

        Raises:
            WorkerError: if the sender reports that it has none.
        """
        if self.kind == _PROBLEM:
            raise WorkerError(f"rank {rank} could not send its container: {self.text.decode()}")

    def container(self) -> Any:
        """The object that was sent with its structure; its tensors are views of the memory."""
        _, pickled, shapes = pickle.loads(self.text)
        return Parcel(pickled, shapes, []).rebuilt(self.block.whole[HEAD : HEAD + self.size].cpu())


def message_in(whole: Tensor) -> Message:
    """The message in some memory."""
    block = MessageBlock(whole)
    return Message(block, *head_of(block.head)[1:7])


def message_of(batch: Any, device: torch.device) -> tuple[MessageBlock, HeldError | None]:
    """A container as a message; if it can't be sent, the reason, so that no rank waits."""
    try:
        if isinstance(batch, TensorCollection):
            for path, leaf in tensors_in(batch):
                check_local(".".join(path), leaf)
        return _whole(batch, device), None
    except Exception as error:  # the caller raises it, when the other ranks have been told
        return problem_message(error, device), HeldError(error)


def moved(found: list[Tensor], move: Callable[[list[Tensor], slice], Any]) -> list[Tensor]:
    """Move messages of one or several ranks; those that fit into a frame take one transfer.

    Args:
        found: memory for one frame of each rank, or the message itself.
        move: moves one part of each message; gets the parts and their place.
    """
    move([one[:FRAME] for one in found], slice(0, FRAME))
    heads = [head_of(one[:HEAD].view(torch.int64)) for one in found]
    end = max([max(most, HEAD + size + text) for _, _, most, size, text, *_ in heads])
    if len(found[0]) < end:
        found = [torch.cat([frame, frame.new_empty(end - FRAME)]) for frame in found]
    for at in range(FRAME, end, BUCKET):
        move([one[at : at + BUCKET] for one in found], slice(at, at + BUCKET))
    return found


class Incoming:
    """A message that is being received. It is requested before this rank looks at its own container.

    Args:
        group: the process group.
        peer: the sender.
        tag: the tag of the sender.
    """

    def __init__(self, group: Any, peer: int, tag: int) -> None:
        self._group, self._peer, self._tag, self._known = group, peer, tag, known_of(group)
        self._device = device_of(group)
        self._doing = f"recv from rank {peer}"
        self._frame = self._known.lent(self._device)
        with talking(group, self._doing):
            self._work = group.recv([self._frame.whole], peer, 2 * tag)

    def expect(self, structure: Structure) -> None:
        """Request the part after the frame too, for a structure that the peer has sent before."""
        place = self._peer, _tag_of(structure.digest, True, self._tag)
        known = (self._peer, structure.digest) in self._known.heard and _tags(self._device) and structure.plain
        if HEAD + structure.size > FRAME and known and place not in self._known.ahead:
            block = self._known.lent(self._device, structure)
            with talking(self._group, self._doing):
                self._known.ahead[place] = block, self._await(block, place[1])

    def _await(self, block: MessageBlock, tag: int) -> list[Any]:
        return [self._group.recv([part], self._peer, tag) for part in block.parts[1:]]

    def message(self, wanted: Structure | None = None, timeout: timedelta | None = None) -> Message:
        """The whole message; memory is reused if it has the wanted structure."""
        frame = self._frame
        with talking(self._group, self._doing):
            wait_for_requests([self._work], timeout)
            found = Message(frame, *head_of(frame.head)[1:7])
            end = HEAD + found.size + found.length
            if end <= FRAME:
                return found
            tag = _tag_of(found.digest, bool(found.apart), self._tag)
            block, works = self._known.ahead.pop((self._peer, tag), (None, []))
            if block is None and wanted is not None and found[1:5] == (_PLAIN, wanted.digest, wanted.size, 0):
                block = self._known.lent(self._device, wanted)
            block = block or MessageBlock(bytes_on(self._device, end))
            wait_for_requests(works or self._await(block, tag), timeout)
            block.parts[0].copy_(frame.whole)
        self._known.returned(frame)
        return found._replace(block=block)

    def take(self, message: Message, batch: Any, structure: Structure) -> None:
        """Write a received message into a container of this structure."""
        if message.kind == _PLAIN:
            write(structure.leaves, message.block.views(structure).each)
            self._known.returned(message.block)
        else:  # its memory stays with the tensors in Python objects
            with torch.no_grad():
                batch.copy_(message.container())


class Receiving(Transfer):
    """A started `irecv`. Transfers of the same tag end in the order in which they were requested."""

    def __init__(self, batch: Any, group: Any, peer: int, tag: int) -> None:
        super().__init__(group, f"recv from rank {peer}")
        self._batch, self._peer, self._tag = batch, peer, tag
        self._arrived: Event | None = None
        """Set when a posted transfer has ended."""
        self._late: HeldError | None = None
        """The error of a wait whose time was over."""
        key = (id(group), peer, tag)
        with _ENQUEUING:
            self._before: Receiving | None = _LAST.get(key)
            _LAST[key] = self

    def post(self) -> None:
        """Receive in a thread, behind the earlier transfers of this tag, so that the sender gets its answer."""
        self._arrived, self._modes = Event(), (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        key = os.getpid(), id(self._group), self._peer, self._tag
        with _ENQUEUING:
            waiting = _POSTED.get(key)
            if waiting is not None:
                waiting.append(self)
                return
            _POSTED[key] = deque([self])
        Thread(target=_receive_all, args=(key,), name="tensorclass-irecv", daemon=True).start()

    def receive(self) -> None:
        """End the transfer in the modes of torch in which it was requested."""
        assert self._arrived is not None  # it was posted
        try:
            with torch.inference_mode(self._modes[1]), torch.set_grad_enabled(self._modes[0]):
                self.end(None)
        finally:
            self._arrived.set()

    def _await_end(self, timeout: timedelta | None) -> None:
        if self._arrived is None:
            self.end(timeout)
        elif self._late is None and not self._arrived.wait(None if timeout is None else timeout.total_seconds()):
            self._late = HeldError(
                WorkerError(
                    f"{self._doing} on rank {self._group.rank()} of {self._group.size()}: nothing came within "
                    f"{timeout}; nothing was written here, and what comes later is dropped"
                )
            )
        if self._late is not None:
            self._late.reraise()

    def end(self, timeout: timedelta | None) -> None:
        """End the transfers that were requested earlier, then this one."""
        waiting: list[Receiving] = [self]
        while (before := waiting[-1]._before) is not None:
            waiting.append(before)
        for one in reversed(waiting):
            one._before = None
            Transfer.end(one, timeout)

    def _end(self, timeout: timedelta | None) -> None:
        """Receive a message, compare the structures, and write the values."""
        problem: HeldError | None = None
        structure: Structure | None = None
        incoming = Incoming(self._group, self._peer, self._tag)
        try:
            structure = Structure(self._batch)
            check_writable(structure.leaves, structure.names)
            incoming.expect(structure)
        except Exception as error:  # raised below; the other rank is told
            problem = HeldError(error)
        message = incoming.message(structure, timeout)
        message.check(self._peer)
        if message.ask:
            self._note_structure(message)
        problem = problem or self._late
        if problem is None and structure is not None and structure.digest != message.digest:
            problem = HeldError(self._structure_error(structure, message))
        if message.ask:
            self._answer(problem)
        if problem is not None:
            problem.reraise()
        assert structure is not None  # or there was a problem
        incoming.take(message, self._batch, structure)

    def _note_structure(self, message: Any) -> None:
        """Remember the structure that a message describes; later messages have only its digest."""
        heard = known_of(self._group).heard
        if len(heard) >= _STRUCTURES:
            heard.clear()
        heard[self._peer, message.digest] = pickle.loads(message.text)[0]

    def _structure_error(self, structure: Structure, message: Any) -> StructureError:
        """The error for a message of another structure."""
        here, there = f"rank {self._group.rank()}", f"rank {self._peer}, which sent it"
        theirs = known_of(self._group).heard.get((self._peer, message.digest))
        if theirs is None:
            where = f"{here} has forgotten that of {there}"
        else:
            where = difference(structure.rows, theirs, here, there)
        return StructureError(f"recv: the structures differ: {where}; nothing was written")

    def _answer(self, problem: HeldError | None) -> None:
        """Tell the other rank whether its container is accepted."""
        text = "" if problem is None else f"rank {self._group.rank()} refused the container: {problem.error}"
        kind, short = _PROBLEM if text else _PLAIN, text.encode()[: FRAME - 2 * HEAD]
        answer = _message(kind, device_of(self._group), text=short)
        known_of(self._group).answer(self._group, answer, self._peer, self._tag)


def _receive_all(key: tuple[int, ...]) -> None:
    """The thread of one sender and tag: end its transfers in turn."""
    while True:
        with _ENQUEUING:
            waiting = _POSTED[key]
            if not waiting:
                del _POSTED[key]
                return
            transfer = waiting.popleft()
        transfer.receive()
        del transfer  # its container may go


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


def _start_transfer(kind: Any, batch: Any, rank: Any, group: Any, group_rank: Any, init_tag: int, early: bool) -> Any:
    """The handles of a transfer, or the tag if it has ended."""
    found, peer = peer_of(rank, group, group_rank, "dst" if kind is Sending else "src")
    if not 0 <= init_tag < 2**29:
        raise ArgumentError(f"init_tag is a number from 0, below 2**29, got {init_tag!r:.40}")
    transfer = kind(batch, found, peer, init_tag)
    if early:
        if isinstance(transfer, Receiving) and _tags(
            device_of(found)
        ):  # other backends run requests in the order of the calls
            transfer.post()
        return [transfer]
    transfer.wait()
    return init_tag


def isend(batch: Any, dst: Any, group: Any, group_dst: Any, init_tag: int, return_early: bool) -> Any:
    """See `TensorDictBase.isend`."""
    return _start_transfer(Sending, batch, dst, group, group_dst, init_tag, return_early)


def send(batch: Any, dst: Any, group: Any, group_dst: Any, init_tag: int) -> None:
    """See `TensorDictBase.send`."""
    if callable(getattr(dst, "send", None)) and not isinstance(dst, TensorCollection):
        dst.send(batch)
    else:
        _start_transfer(Sending, batch, dst, group, group_dst, init_tag, False)


def irecv(batch: Any, src: Any, group: Any, group_src: Any, init_tag: int, return_premature: bool) -> Any:
    """See `TensorDictBase.irecv`."""
    handles = _start_transfer(Receiving, batch, src, group, group_src, init_tag, return_premature)
    return handles if return_premature else None


def recv(batch: Any, src: Any, group: Any, group_src: Any, init_tag: int) -> Any:
    """See `TensorDictBase.recv`."""
    if callable(getattr(src, "recv", None)) and not isinstance(src, TensorCollection):
        return src.recv(batch)
    return _start_transfer(Receiving, batch, src, group, group_src, init_tag, False)
