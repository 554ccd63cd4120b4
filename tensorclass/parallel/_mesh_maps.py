"""Maps that run on all ranks of a device mesh: each part on the ranks of one place along the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch.distributed as dist
from typing_extensions import Self

from ..errors import ArgumentError, StructureError, UnsupportedOperationError
from ._agreed import groups_of
from ._commit import Commits, MapRequest
from ._engines import Engine, Failed, Job, unwrap_result
from ._layout import Layout
from ._links import is_fake, talking
from ._rows import Done


def gather_outcomes(layout: Layout | None, call: Callable[[], Any]) -> list[tuple[int, Any]]:
    """The results of a call on all ranks of the mesh, with their ranks; an error is a `Failed`, also for `call`."""
    said: list[Any] = [(dist.get_rank(), _outcome(call))]
    for group in groups_of(layout):
        if is_fake(group):
            raise UnsupportedOperationError("map: the ranks of a fake process group do nothing; start a real one")
        each: list[Any] = [None] * dist.get_world_size(group)
        with talking(group, "map"):
            dist.all_gather_object(each, said, group=group)
        said = [one for part in each for one in part]
    return sorted(said, key=lambda one: one[0])


def run_together(layout: Layout | None, call: Callable[[], Any]) -> list[Any]:
    """The results of a call on all ranks of the mesh; if one rank raises, all ranks raise its error."""
    return [unwrap_result(result) for _, result in gather_outcomes(layout, call)]


def expect_layout(layout: Any, what: str) -> None:
    """Refuse anything but a layout, on all ranks, which would wait for this one."""
    if isinstance(layout, Layout):
        return

    def refuse() -> None:
        raise ArgumentError(f"{what}layout= takes a tensorclass.parallel.Layout, got a {type(layout).__name__}")

    if dist.is_available() and dist.is_initialized() and not is_fake(dist.group.WORLD):
        run_together(None, refuse)
    refuse()


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # the other ranks hear it and raise it as well
        return Failed(error)


class Meeting:
    """A layout whose ranks have not met yet: each may still fail by itself, and the others would wait for it."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.is_open = layout, True

    def meet(self, call: Callable[[], Any]) -> None:
        """Make a call on all ranks of the mesh; if one of them raises, or has raised before, all raise its error."""
        self.is_open = False
        run_together(self.layout, call)


def heard_by_all(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Make a verb of datasets tell all ranks of the mesh of an error before they have met; `layout=` is a `Meeting`."""

    @wraps(verb)
    def call(*args: Any, layout: Any = None, **how: Any) -> Any:
        if layout is None:
            return verb(*args, **how)
        expect_layout(layout, "")
        layout._expect_ranks(False)
        meeting = Meeting(layout)
        try:
            return verb(*args, layout=meeting, **how)
        except Exception as error:  # the other ranks hear it
            if meeting.is_open:
                meeting.meet(Failed(error).reraise)
            raise

    return call


class MeshEngine:
    """Runs the tasks of a map on the ranks of a mesh in turn, and gives all ranks all results.

    All ranks run the same map, so they submit the same tasks in the same order. Ranks that differ only in mesh dims
    beside the rows run the same tasks, as modules need that exchange values between them.

    Args:
        layout: says which ranks have the same rows.
        inner: runs the tasks of this rank.
    """

    grain = 0.0
    """Each task by itself: groups of tasks would follow the clock of one rank."""

    def __init__(self, layout: Layout, inner: Engine) -> None:
        self._layout, self._inner = layout, inner
        self._place, self._places = layout.data_rank()
        self.sends_tasks: Any = getattr(inner, "sends_tasks", None)

    def start(self, job: Job, workers: int | None) -> int:
        """Start the engine of each rank."""
        self._begun = 0
        self._waiting: deque[tuple[int, Any]] = deque()
        self._found: dict[int, Any] = {}
        started: int = min(run_together(self._layout, lambda: self._inner.start(job, workers)))
        return started * self._places

    def submit(self, task: Any) -> int:
        """Start a task if it is one of this rank; returns its number."""
        number, self._begun = self._begun, self._begun + 1
        mine = number % self._places == self._place
        self._waiting.append((number, _outcome(lambda: self._inner.submit(task)) if mine else None))
        return number

    def result(self, handle: int) -> Any:
        """Wait until all ranks have run the tasks up to this one."""
        while handle not in self._found:
            self._exchange()
        return self._found.pop(handle)

    def _exchange(self) -> None:
        """Finish one task on each place, and send its result to all ranks."""
        numbers, mine = list[int](), None
        while self._waiting and len(numbers) < self._places:
            number, own = self._waiting.popleft()
            numbers.append(number)
            mine = own if number % self._places == self._place else mine
        said = gather_outcomes(self._layout, lambda: (self._place, self._end(mine)))
        by_place = {place: found for _, (place, found) in reversed(said)}
        self._found.update({number: by_place[number % self._places] for number in numbers})

    def _end(self, mine: Any) -> Any:
        return mine if mine is None or isinstance(mine, Failed) else _outcome(lambda: self._inner.result(mine))

    def close(self) -> None:
        """Stop the engine of this rank."""
        self._inner.close()


class MeshCommits:
    """`Commits` of one rank; the others hear what it finds, and its errors.

    Args:
        layout: has the mesh.
        out: the folder.
        asked: the request.
        cls: the class of the rows, if known.
        resume: continue an earlier map.

    Raises:
        StructureError: on all ranks, if they ask for different maps.
    """

    def __init__(self, layout: Layout, out: str, asked: MapRequest, cls: Any, resume: bool) -> None:
        self._layout, self.cls = layout, cls
        self._own: Commits | None = None
        self._leads = not any(layout.coordinate())

        def begin() -> Any:
            if not self._leads:
                return None
            self._own = Commits(out, asked, cls, resume)
            return self._own.next, self._own.done

        self._compare((out, repr(asked), resume, repr(layout)))
        self.next, self.done = next(facts for facts in run_together(layout, begin) if facts is not None)

    def _compare(self, call: tuple[Any, ...]) -> None:
        first, *others = gather_outcomes(self._layout, lambda: call)
        for rank, other in others:
            for one, two in zip(first[1], other, strict=True):
                if one != two:
                    raise StructureError(
                        f"map: rank {first[0]} asks for {one!s:.300} and rank {rank} for {two!s:.300}; all ranks of a "
                        f"mesh make the same call"
                    )

    def add(self, part: int, done: Done) -> None:
        """Add a finished part; parts are added in order."""
        self.cls = done.cls if self.cls is None else self.cls
        self._lead(lambda own: own.add(part, done))

    def finish(self) -> None:
        """Commit the rest after the last part."""
        self._lead(Commits.finish)

    def _lead(self, call: Callable[[Commits], None]) -> None:
        own = self._own
        run_together(self._layout, lambda: None if own is None else call(own))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._own is not None:
            self._own.__exit__(*error)
