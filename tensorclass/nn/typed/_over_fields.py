"""Keyed modules in typed pipelines: their keys are paths of fields that a class of the pipeline declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...core import Path, join_path, unravel_key_to_tuple
from ...errors import BuildError, did_you_mean
from ..parts._keyed_base import DROPPED, TensorDictModuleBase
from ..parts._slots import fields_of, is_tensorclass_type
from ..parts._stage import TensorClassModule, default_name
from ._class_module import TensorClassModuleBase, ends_of, leaf_keys


def over_fields(modules: Sequence[Any], ends: Sequence[type]) -> tuple[Any, ...]:
    """The modules of a pipeline, with keyed modules converted to typed modules.

    A key is the path of a field of the output class, of the input class (`ends`), or of a class that a typed module
    names.

    Raises:
        BuildError: for a key that none of these classes declares.
    """
    if not any(isinstance(module, TensorDictModuleBase) for module in modules):
        return tuple(modules)
    classes = list(dict.fromkeys([*ends, *_classes_of_fields(modules)]))
    return tuple(
        _over_fields(module, index, classes) if isinstance(module, TensorDictModuleBase) else module
        for index, module in enumerate(modules)
    )


def _classes_of_fields(modules: Sequence[Any]) -> Iterator[type]:
    """The classes whose fields the typed modules read and write."""
    for module in modules:
        if isinstance(module, TensorClassModule):
            yield from [slot.owner for slot in (*module._reads, *module._writes) if slot is not None]
        elif not isinstance(module, TensorDictModuleBase) and is_tensorclass_type(getattr(module, "input_class", None)):
            yield from (module.input_class, module.output_class)
        elif isinstance(module, TensorClassModuleBase):
            yield from ends_of(module, tensorclasses=True)


def _over_fields(module: TensorDictModuleBase, index: int, classes: Sequence[type]) -> TensorClassModule[Any]:
    name = f"{default_name(getattr(module, 'module', module))}_{index}"
    title = f"module {index} `{name}`"
    reads = [_field(unravel_key_to_tuple(key), f"{title} reads", classes) for key in module.in_keys]
    writes = [
        None if key == DROPPED else _field(unravel_key_to_tuple(key), f"{title} writes", classes)
        for key in module.out_keys
    ]
    return TensorClassModule(module._on_values, reads, writes, name=name)


def _field(path: Path, what: str, classes: Sequence[type]) -> Any:
    """The reference to a field."""
    for cls in classes:
        found: Any = cls
        inner: Any = cls
        for part in path:
            spec = fields_of(inner).get(part) if is_tensorclass_type(inner) else None
            if spec is None:
                break
            found, inner = getattr(found, part), spec.nested
        else:
            return found
    text = join_path(path)
    known = [join_path(unravel_key_to_tuple(key)) for cls in classes for key in leaf_keys(cls)]
    raise BuildError(
        f"{what} the key `{text}`, which is not the path of a field of {', '.join(cls.__name__ for cls in classes)}"
        f"{did_you_mean(text, known)}; declare it, or name the fields: `TensorClassModule(module, in_fields=..., "
        "out_fields=...)`"
    )
