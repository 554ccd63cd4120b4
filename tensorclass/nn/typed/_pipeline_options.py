"""The options of a pipeline, as its overloads have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

from torch import nn
from typing_extensions import Self

from ...errors import ArgumentError, BuildError
from ..check._declared import Report
from ..parts._stage import Stage
from ..parts._unnamed import StageValue
from ._calls import Probing


class Ordered(TypedDict, total=False):
    """The options of a pipeline whose modules run in the given order."""

    probe: Probing
    partial: bool
    skip_existing: bool
    name: str | None
    layout: Placing | None


class Placing(Protocol):
    """A `tensorclass.parallel.Layout`."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The dims of its mesh."""
        ...

    def follow(
        self,
        report: Report,
        stages: Sequence[Stage],
        targets: Sequence[Callable[..., Any]],
        ends: Sequence[type],
        /,
        *,
        run: bool = True,
    ) -> Report:
        """The report with the placements of all values."""
        ...


def layout_of(own: Placing | None, inner: Iterable[Placing | None]) -> Placing | None:
    """The layout of a pipeline: its own, or that of the pipelines in it.

    Raises:
        ArgumentError: for two of them and none of its own, and for one on another mesh.
    """
    found = [*dict.fromkeys(one for one in inner if one is not None)]
    if own is None and len(found) > 1:
        raise ArgumentError(f"the pipelines in it have the layouts {found[0]!r} and {found[1]!r}; pass `layout=`")
    for one in found:
        if own is not None and [*one.sizes.items()] != [*own.sizes.items()]:
            raise ArgumentError(f"the pipeline in it is on the mesh of {one!r}, and `layout=` is {own!r}")
    return own if own is not None or not found else found[0]


_OPTIONS = {"input", "output", "sort", *Ordered.__annotations__}


class StagesApart:
    """Refuses stages under the names of options."""

    def __new__(cls, /, *_: Any, **options: Any) -> Self:
        """Look at the keywords before the options are checked."""
        for name in sorted(_OPTIONS & options.keys()):
            if isinstance(options[name], (StageValue, nn.Module)):
                raise BuildError(f"`{name}` is an option of the pipeline; name the stage differently")
        return super().__new__(cls)
