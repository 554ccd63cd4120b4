"""What is known of a tensor, and the arguments of one call of a function or method of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mypy import nodes

from ._promotion import FLOATS, Dtypes
from ._sizes import KnownSizes, Shape
from ._torch_table import KINDS, PARAMETERS


@dataclass(frozen=True)
class TensorFacts:
    """The possible dtypes of a tensor, and its shape; None means unknown."""

    dtypes: Dtypes
    shape: KnownSizes | None

    def __str__(self) -> str:
        kind = "float" if self.dtypes == FLOATS else "tensor"
        dtype = next(iter(self.dtypes)) if self.dtypes is not None and len(self.dtypes) == 1 else kind
        return dtype if self.shape is None else f"{dtype} {self.shape}"

    @property
    def rank(self) -> int | None:
        """0, 1 for any other number of dims, or None if it may be both."""
        if self.shape is None or (self.shape.base is not None and not self.shape.dims and self.shape.extra <= 0):
            return None
        return 1 if self.shape.base is not None else min(len(self.shape.dims), 1)


Several = tuple[TensorFacts | None, ...]
Known = TensorFacts | Several | None
NOTHING = TensorFacts(None, None)


class Reader(Protocol):
    """What reads the arguments of a call."""

    def tensor(self, expr: nodes.Expression) -> TensorFacts | None:
        """The facts of a tensor."""
        ...

    def number(self, expr: nodes.Expression | None) -> int | None:
        """A certain integer."""
        ...

    def sizes(self, expr: nodes.Expression) -> Shape | None:
        """A list of integers, or one."""
        ...

    def items(self, expr: nodes.Expression) -> list[nodes.Expression] | None:
        """The members of a list that is written out."""
        ...

    def added_items(self, expr: nodes.Expression) -> list[nodes.Expression] | None:
        """What the members of a list of any length are made by."""
        ...

    def kind_of_number(self, expr: nodes.Expression) -> str:
        """The kind of a number of Python; "" for anything else."""
        ...

    def dtype(self, expr: nodes.Expression) -> Dtypes:
        """The dtype that an argument names."""
        ...


@dataclass(frozen=True)
class Call:
    """The arguments of one call: by position, with the tensor of a method first, and by name."""

    reader: Reader
    name: str
    plain: list[nodes.Expression]
    named: Mapping[str, nodes.Expression]
    own: TensorFacts | None
    """The tensor whose method is called; None for a function."""

    def get(self, name: str) -> nodes.Expression | None:
        """An argument by the name of its parameter."""
        names = PARAMETERS.get(KINDS[self.name], ("input", "other"))
        place = names.index(name) - (self.own is not None)
        positional = self.plain[place] if 0 <= place < len(self.plain) else None
        return self.named.get(name, positional)

    def number(self, name: str, default: int | None) -> int | None:
        """An integer argument."""
        given = self.get(name)
        return default if given is None else self.reader.number(given)

    def flag(self, name: str) -> bool | None:
        """A flag; None if it is unknown."""
        given = self.get(name) if name in PARAMETERS.get(KINDS[self.name], ()) else self.named.get(name)
        if given is None:
            return False
        return given.name == "True" if isinstance(given, nodes.NameExpr) and given.name in ("True", "False") else None

    def first(self) -> TensorFacts:
        """The tensor itself."""
        if self.own is not None:
            return self.own
        name = PARAMETERS.get(KINDS[self.name], ("input",))[0]
        given = self.named.get(name, self.plain[0] if self.plain else None)
        return (None if given is None else self.reader.tensor(given)) or NOTHING

    def rest(self) -> list[nodes.Expression]:
        """The arguments behind the tensor."""
        return self.plain if self.own is not None else self.plain[1:]

    def varargs(self, name: str) -> Shape | None:
        """Sizes or dims, given one by one or as one sequence."""
        given = [self.named[name]] if name in self.named else self.rest()
        if len(given) == 1:
            found = self.reader.sizes(given[0])
            return (None,) if found is None and self.reader.kind_of_number(given[0]) == "int" else found
        return tuple(self.reader.number(item) for item in given)

    def values(self, *names: str) -> dict[str, nodes.Expression]:
        """The arguments by parameters that the table does not name; those behind the tensor by position."""
        return {**dict(zip(names, self.rest(), strict=False)), **{n: self.named[n] for n in names if n in self.named}}
