"""Reads signatures of callables: the number of arguments, and which of them may be None."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Union, get_args, get_origin

from torch import nn

from ...errors import nearest

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def target_of(module: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose parameters matter: `forward` of an `nn.Module`."""
    return module.forward if isinstance(module, nn.Module) else module


def signature_of(module: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a callable; None for builtins and compiled code without one.

    >>> str(signature_of(nn.Linear(2, 3)))
    '(input: torch.Tensor) -> torch.Tensor'
    """
    try:
        return inspect.signature(target_of(module))
    except (ValueError, TypeError):
        return None


def arity_problem(signature: inspect.Signature, count: int, names: Sequence[str] = ()) -> str | None:
    """The reason why positional arguments, or keyword arguments of these names, don't fit; None if they do.

    >>> arity_problem(inspect.signature(lambda query, key: 0), 0, ["query", "kee"])
    'has no parameter `kee` (the nearest is `key`)'
    """
    try:
        signature.bind(*range(count), **dict.fromkeys(names))
    except TypeError as error:
        return _takes_named(signature, names, error) if names else _takes(signature)
    return None


def swallowed_keywords(signature: inspect.Signature, names: Sequence[str]) -> list[tuple[str, str]]:
    """Keyword arguments that only `**kwargs` accepts, each with a parameter of a similar name.

    >>> swallowed_keywords(inspect.signature(lambda attention_mask=None, **more: 0), ["attn_mask", "labels"])
    [('attn_mask', 'attention_mask')]
    """
    others = {name: nearest(name, signature.parameters) for name in names if name not in signature.parameters}
    return [(name, near) for name, near in others.items() if near]


def _takes_named(signature: inspect.Signature, names: Sequence[str], error: TypeError) -> str:
    unknown = next((name for name in names if name not in signature.parameters), None)
    if unknown is None:
        return f"can't be called by these keywords: {error}"
    near = nearest(unknown, signature.parameters)
    return f"has no parameter `{unknown}`" + (f" (the nearest is `{near}`)" if near else "")


def _takes(signature: inspect.Signature) -> str:
    parameters = signature.parameters.values()
    named = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is inspect.Parameter.empty]
    if named:
        return f"needs the keyword argument `{named[0].name}`, and in fields are passed by position"
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    least = sum(p.default is inspect.Parameter.empty for p in positional)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return f"takes {least} or more arguments"
    many = str(least) if least == len(positional) else f"{least} to {len(positional)}"
    return f"takes {many} argument" + ("s" if many != "1" else "")


def admits_none(module: Callable[..., Any], signature: inspect.Signature | None, place: int | str) -> bool:
    """Whether the parameter at a position, or with a name, may be None, by its default or its annotation."""
    parameter = _parameter(signature, place)
    if parameter is None:
        return False
    if parameter.default is None:
        return True
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return False
    return _is_optional(_resolve_annotation(module, parameter.name, annotation))


def _parameter(signature: inspect.Signature | None, position: int | str) -> inspect.Parameter | None:
    if signature is None:
        return None
    if isinstance(position, str):
        return signature.parameters.get(position)
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    if position < len(positional):
        return positional[position]
    return next((p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)


def _resolve_annotation(module: Callable[..., Any], name: str, annotation: Any) -> Any:
    """The type that a string annotation names; the string itself if it can't be resolved."""
    if not isinstance(annotation, str):
        return annotation
    function = target_of(module)
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing.get_type_hints(function).get(name, annotation)
    except Exception:  # evaluating the user's annotations may raise anything
        return annotation


def _is_optional(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "None" in annotation or "Optional[" in annotation
    if annotation in (None, types.NoneType, Any, object):
        return True
    if get_origin(annotation) is typing.Annotated:
        return _is_optional(get_args(annotation)[0])
    return get_origin(annotation) in (Union, types.UnionType) and any(map(_is_optional, get_args(annotation)))
