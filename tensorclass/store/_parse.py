"""Parses a printed container to one of zeros with the same keys, shapes, dtypes and batch sizes."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Any, NoReturn

import torch

from ..core import LONG_DTYPE
from ..errors import ArgumentError
from ._dict import TensorDict

_DTYPE = re.compile(r"(\w+)\[([\d, -]*)\]")
_START = re.compile(r"(\w*)(?:\[([\d, ]*)\])?\{")
_CALL = re.compile(r"([\w.\[\], ]+?)\(")
_KEY = re.compile(r"\s*([^:={}]+?): ")
_FIELD = re.compile(r"\s*(\w+)=")
_SIZE = re.compile(r"(?:torch\.Size\()?\[([\d, ]*)\]\)?")
_NAMES = re.compile(r"\[[^\]]*\]")
_WORD = re.compile(r"[^,)}\s]+")
_NUMBER = re.compile(r"(?=\[|-?(?:\d|nan|inf)|True|False)")
_SPACE = re.compile(r"[\s,]*")


def parse_tensor_dict_string(s: str) -> TensorDict:
    """Make a TensorDict of zeros with the keys, shapes, dtypes, devices and batch sizes of a printed container.

    Use it to reproduce a case from a log. It reads the compact and the detailed form with default options. One element
    of a class prints numbers without a dtype: they become float32, int64, bool or complex64.

    Args:
        s: the printed form.

    Raises:
        ValueError: if the text is not a printed container of tensors; shows the position.

    >>> import torch
    >>> from tensorclass import TensorDict, parse_tensor_dict_string
    >>> data = TensorDict(obs=torch.ones(3, 4), next={"done": torch.ones(3, 1)}, batch_size=[3])
    >>> parse_tensor_dict_string(repr(data))["next", "done"].shape
    torch.Size([3, 1])
    """
    if not isinstance(s, str):
        raise ArgumentError(f"parse_tensor_dict_string takes the printed form as a str, got a {type(s).__name__}")
    reader = TextReader(s.strip())
    result = reader.container()
    if reader.at != len(reader.text):
        reader.fail("nothing follows a printed container")
    return result


class TextReader:
    """A parser with a position in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, what: str) -> NoReturn:
        """Raise an error that shows the position."""
        place = self.text[self.at : self.at + 40]
        raise ArgumentError(f"not a printed container of tensors: {what}; at character {self.at}: {place!r:.200}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read a pattern at the position, if it matches."""
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def need(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Read a required pattern at the position."""
        return self.match(pattern) or self.fail(f"{what} is expected")

    def take(self, literal: str) -> bool:
        """Read a literal at the position, if it is there."""
        found = self.text.startswith(literal, self.at)
        self.at += len(literal) if found else 0
        return found

    # ---- containers ----------------------------------------------------------------------------------------------

    def container(self) -> TensorDict:
        """`TensorDict(batch_size=[3], fields={...})`, attributes before or after the fields."""
        self.need(_CALL, "the name of a class and `(`")
        facts: dict[str, Any] = {}
        typed: dict[str, Any] = {}
        while not self._closes(")"):
            name = self.need(_FIELD, "`name=`")[1]
            if name == "fields":
                if not self.take("{"):
                    self.fail("`{` is expected")
                facts[name] = self.entries(facts.get("batch_size", ()))
            elif self.text.startswith("Tensor(", self.at):
                typed[name] = self.entry(())
            elif name not in _ATTRIBUTES:
                typed[name] = self.entry((), name)
                facts.setdefault("batch_size", ())  # one element, whose batch size is not printed
            else:
                facts[name] = self.attribute(name)
        if "batch_size" not in facts:
            self.fail("no batch_size is told")
        entries = facts.get("fields", typed)
        return TensorDict(entries, facts["batch_size"], device=facts.get("device"), names=facts.get("names"))

    def attribute(self, name: str) -> Any:
        """The value of an attribute, in the form for its name."""
        if name in ("batch_size", "shape"):
            return _sizes(self.need(_SIZE, "a list of sizes")[1])
        if name == "names":
            return literal_eval(self.need(_NAMES, "a list of names")[0])
        word = self.need(_WORD, "a value")[0]
        return None if word == "None" else word

    def entries(self, outer: tuple[int, ...]) -> dict[str, Any]:
        """Entries up to the closing brace; `outer` is the batch size of their container."""
        found: dict[str, Any] = {}
        while not self._closes("}"):
            key = self.need(_KEY, "`key: `")[1]
            found[key] = self.entry(outer, key)
        return found

    def entry(self, outer: tuple[int, ...], key: str = "") -> Any:
        """One entry of either form."""
        if self.take("Tensor("):
            return self.tensor()
        start = self.at
        dtype = self.match(_DTYPE)
        if dtype is not None and not self.text.startswith("{", self.at):
            kind = _dtype(dtype[1])
            if kind is None or "-" in dtype[2]:
                self.fail(f"`{key}` has no dtype and shape that a tensor can have")
            if self.take(" = "):
                self.value()
            return torch.zeros((*outer, *_sizes(dtype[2])), dtype=kind)
        self.at = start
        nested = self.match(_START)
        if nested is not None:
            size = (*outer, *_sizes(nested[2] or ""))
            return TensorDict(self.entries(size), size)
        if self.match(_NUMBER):
            return _zeros_like(self.value())
        if not _CALL.match(self.text, self.at):
            self.fail(f"`{key}` is neither a tensor nor a container")
        return self.container()

    def value(self) -> str:
        """The printed numbers of a tensor."""
        start, depth = self.at, 0
        while self.at < len(self.text) and (depth or self.text[self.at] not in ",})"):
            depth += {"[": 1, "]": -1}.get(self.text[self.at], 0)
            self.at += 1
        return self.text[start : self.at]

    def tensor(self) -> torch.Tensor:
        """`Tensor(shape=..., device=..., dtype=..., is_shared=...)`."""
        facts: dict[str, Any] = {}
        while not self._closes(")"):
            name = self.need(_FIELD, "`name=`")[1]
            facts[name] = self.attribute(name)
        dtype = _dtype(str(facts.get("dtype", "float32")).removeprefix("torch."))
        if dtype is None or "shape" not in facts:
            self.fail("a tensor tells its shape and a dtype of torch")
        return torch.zeros(facts["shape"], dtype=dtype, device=facts.get("device"))

    def _closes(self, literal: str) -> bool:
        self.need(_SPACE, "")
        if self.at == len(self.text):
            self.fail(f"`{literal}` is expected")
        return self.take(literal)


_ATTRIBUTES = {"batch_size", "device", "names", "is_shared", "stack_dim"}


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _zeros_like(numbers: str) -> torch.Tensor:
    """Zeros for printed numbers."""
    return torch.zeros_like(torch.tensor(literal_eval(re.sub("nan|inf", "0.0", numbers))))


def _dtype(name: str) -> torch.dtype | None:
    found = getattr(torch, LONG_DTYPE.get(name, name), None)
    return found if isinstance(found, torch.dtype) else None
