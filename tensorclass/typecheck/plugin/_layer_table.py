"""What layers of torch make of a value, as far as their literal arguments fix it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from mypy import nodes
from mypy.errorcodes import ErrorCode

from . import _sizes as shapes
from ._call_parts import NOTHING, Known, TensorFacts
from ._codes import DTYPE, SHAPE
from ._promotion import FLOATS
from ._refs import written_out
from ._shapes import int_of, sizes_of
from ._sizes import KnownSizes, Size
from ._source import Source, call_arguments, callee_name

MODULES: Final = "torch.nn.modules."
SAME: Final = frozenset({
    "ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "ELU", "LeakyReLU", "Softplus", "Softmax", "LogSoftmax", "Dropout",
    "Mish", "Hardswish", "ReLU6", "SELU", "CELU", "Identity", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "Hardtanh", "Softmin",
    "Hardsigmoid", "LogSigmoid", "Softsign", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "PReLU",
})  # fmt: skip
"""Layers that keep the shape, and the dtype of floating values."""
_CONVOLUTIONS: Final = {"Conv1d": 1, "Conv2d": 2, "Conv3d": 3}
_POOLS: Final = {"MaxPool1d": 1, "MaxPool2d": 2, "MaxPool3d": 3, "AvgPool1d": 1, "AvgPool2d": 2, "AvgPool3d": 3}
_ADAPTIVE: Final = {f"Adaptive{kind}Pool{count}d": count for kind in ("Avg", "Max") for count in (1, 2, 3)}
_RECURRENT: Final = frozenset({"RNN", "GRU", "LSTM"})


_MORE: Final = tuple(f"more{i}" for i in range(20))
_WIDTHS: Final[dict[str, tuple[tuple[str, ...], int | None]]] = {
    "Linear": (("in_features",), -1),
    "LayerNorm": (("normalized_shape",), -1),
    "RMSNorm": (("normalized_shape",), -1),
    "MultiheadAttention": (("embed_dim",), -1),
    **{name: (("in_channels",), -count - 1) for name, count in _CONVOLUTIONS.items()},
    **{
        f"{kind}{count}d": (("num_features",), -count - 1) for kind in ("BatchNorm", "InstanceNorm") for count in (2, 3)
    },
    "BatchNorm1d": (("num_features",), None),
    "GroupNorm": (("num_groups", "num_channels"), None),
    **dict.fromkeys(_RECURRENT, (("input_size",), -1)),
}
"""The argument that fixes a dim of the given value, behind those before it, and the dim; None: the first event dim."""
_INTEGERS: Final = frozenset({"int32", "int64"})


class WidthProblem(NamedTuple):
    """A value that a layer does not take."""

    text: str
    code: ErrorCode


def layer_name(layer: nodes.Expression) -> str:
    """The name of the class of torch that an expression makes a layer of; "" for anything else."""
    module, _, name = callee_name(layer).rpartition(".")
    return name if isinstance(layer, nodes.CallExpr) and module.startswith(MODULES) else ""


def width_problem(source: Source, layer: nodes.Expression, given: TensorFacts, label: str) -> WidthProblem | None:
    """Why a layer does not take a value; None if it may.

    Args:
        source: The file.
        layer: The expression that makes the layer.
        given: What is known of the value.
        label: What the value is, for the message.
    """
    name = layer_name(layer)
    if not isinstance(layer, nodes.CallExpr) or not name:
        return None
    kind = "float" if (given.dtypes or frozenset()) & FLOATS else "/".join(sorted(given.dtypes or ()))
    if name == "Embedding" and given.dtypes is not None and not given.dtypes & _INTEGERS:
        return WidthProblem(f"nn.Embedding takes int32 or int64, {label} is {kind}", DTYPE)
    if name not in _WIDTHS:
        return None
    if given.dtypes is not None and not given.dtypes & FLOATS and "dtype" not in layer.arg_names:
        return WidthProblem(f"nn.{name} takes floating values, {label} is {kind}", DTYPE)
    names, dim = _WIDTHS[name]
    named = call_arguments(layer, (*names, *_MORE)) or {}
    wide = named.get(names[-1])
    wanted = None if wide is None else sizes_of(source, wide)
    found = None if wanted is None or given.shape is None else _given_sizes(given.shape, dim, len(wanted))
    if wanted and found and any(None not in pair and pair[0] != pair[1] for pair in zip(wanted, found, strict=True)):
        one, other = (sizes[0] if len(sizes) == 1 else [*sizes] for sizes in (wanted, found))
        place = "the last dim" if dim == -1 else "the number of channels"
        return WidthProblem(f"{names[-1]} is {one}, and {place} of {label} is {other}", SHAPE)
    return None


def _given_sizes(shape: KnownSizes, dim: int | None, count: int) -> tuple[Size, ...] | None:
    """The sizes of a value that a layer fixes; None if their place is unknown."""
    if dim is not None:
        return shape.last(-dim)[:1] if count == 1 else shape.last(count)
    if shape.base is None:
        return shape.dims[1:2] or None
    return shape.dims[:1] if shape.dims and shape.extra == len(shape.dims) else None


def applied(values: Any, source: Source, call: nodes.CallExpr) -> Known:
    """What a call of a layer makes: `layer(x)`, for a layer that is written out in the file."""
    layer = written_out(source, call.callee)
    if layer is call.callee and not isinstance(layer, nodes.CallExpr):
        return None
    return after(source, layer, values.tensor(call.args[0]) or NOTHING) if call.args else None


def after(source: Source, layer: nodes.Expression, given: TensorFacts) -> Known:
    """What a layer makes of a value; None for anything else than a known layer of torch."""
    layer = written_out(source, layer)
    name = layer_name(layer)
    if not isinstance(layer, nodes.CallExpr) or not name:
        return None
    if name == "Sequential":
        return _facts_after(source, layer, given)
    if name in SAME:
        floating = given.dtypes is not None and given.dtypes <= FLOATS
        return given if floating else replace(given, dtypes=None)
    maker = _MAKERS.get(name)
    return None if maker is None else maker(source, layer, name, given)


def _facts_after(source: Source, layer: nodes.CallExpr, given: TensorFacts) -> Known:
    found: Known = given
    for arg, kind in zip(layer.args, layer.arg_kinds, strict=True):
        items = source.items(arg) if kind == nodes.ARG_STAR else [arg]
        for item in items if items is not None else [None]:
            found = None if item is None or not isinstance(found, TensorFacts) else after(source, item, found)
            found = NOTHING if found is None else found
    return found


def _linear(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("in_features", "out_features", "bias", "device", "dtype")) or {}
    width, shape = int_of(source, named.get("out_features")), given.shape
    after = shapes.behind_unknown(width) if shape is None else shapes.resized(shape, -1, width)
    return TensorFacts(None if "dtype" in named else FLOATS, after)


def _embedding(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("num_embeddings", "embedding_dim", "padding_idx")) or {}
    width, shape = int_of(source, named.get("embedding_dim")), given.shape
    if shape is None:
        return TensorFacts(FLOATS, shapes.behind_unknown(width))
    return TensorFacts(FLOATS, replace(shape, dims=(*shape.dims, width), extra=shape.extra + 1))


def _convolution(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation")) or {}
    count = _CONVOLUTIONS[name]
    spatial = _window_sizes(source, named, count, given, {"stride": 1, "padding": 0, "dilation": 1})
    return TensorFacts(FLOATS, _with_last(given.shape, count, (int_of(source, named.get("out_channels")), *spatial)))


def _pool(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("kernel_size", "stride", "padding")) or {}
    count = _POOLS[name]
    spatial = _window_sizes(source, named, count, given, {"stride": None, "padding": 0, "dilation": 1})
    if named.keys() - {"kernel_size", "stride", "padding"}:
        spatial = (None,) * count
    channels = None if given.shape is None else given.shape.last(count + 1)[0]
    return replace(given, shape=_with_last(given.shape, count, (channels, *spatial)))


def _adaptive(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("output_size", "return_indices")) or {}
    count, wanted = _ADAPTIVE[name], named.get("output_size")
    sizes = None if wanted is None else sizes_of(source, wanted)
    if len(named) != 1 or sizes is None:
        return NOTHING
    spatial = sizes * count if len(sizes) == 1 else sizes
    channels = None if given.shape is None else given.shape.last(count + 1)[0]
    return replace(given, shape=_with_last(given.shape, count, (channels, *spatial)))


def _with_last(shape: KnownSizes | None, count: int, dims: tuple[Size, ...]) -> KnownSizes:
    """The channels and the spatial dims behind the dims of the batch."""
    if shape is None or (shape.base is None and len(shape.dims) < count + 1):
        return shapes.behind_unknown(*dims)
    return replace(shape, dims=(*shape.dims[: -count - 1], *dims))


def _window_sizes(
    source: Source, named: dict[str, nodes.Expression], count: int, given: TensorFacts, defaults: dict[str, Size]
) -> tuple[Size, ...]:
    """The spatial sizes behind a window that slides over them."""
    sizes = (None,) * count if given.shape is None else given.shape.last(count)
    kernel = int_of(source, named.get("kernel_size"))
    numbers = {key: int_of(source, named[key]) if key in named else size for key, size in defaults.items()}
    stride = numbers["stride"] if "stride" in named or defaults["stride"] is not None else kernel
    padding, dilation = numbers["padding"], numbers["dilation"]
    return tuple(shapes.slid_size(size, kernel, stride, padding, dilation) for size in sizes)


def _recurrent(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("input_size", "hidden_size", "num_layers")) or {}
    width = int_of(source, named.get("hidden_size"))
    plain = not named.keys() - {"input_size", "hidden_size", "num_layers", "batch_first", "bias", "dropout"}
    last = width if plain else None
    return TensorFacts(FLOATS, None if given.shape is None else shapes.resized(given.shape, -1, last)), None


def _attention(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    return replace(given, dtypes=FLOATS), None


def _flat(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("start_dim", "end_dim")) or {}
    start, end = (int_of(source, named[key]) if key in named else at for key, at in (("start_dim", 1), ("end_dim", -1)))
    shape = given.shape
    if (start, end) == (1, -1) and shape is not None and shape.base is not None and shape.extra == len(shape.dims):
        flat = shapes.flattened(KnownSizes(shape.dims), 0, -1)  # made for one batch dim
        return replace(given, shape=flat and replace(flat, base=shape.base, extra=1))
    return replace(given, shape=shapes.flattened(shape, start, end))


def _unflat(source: Source, layer: nodes.CallExpr, name: str, given: TensorFacts) -> Known:
    named = call_arguments(layer, ("dim", "unflattened_size")) or {}
    wanted = sizes_of(source, named["unflattened_size"]) if "unflattened_size" in named else None
    dim = int_of(source, named.get("dim"))
    if given.shape is None and dim == -1 and wanted is not None:
        return replace(given, shape=shapes.behind_unknown(*(size if size != -1 else None for size in wanted)))
    return replace(given, shape=shapes.unflatten_sizes(given.shape, dim, wanted))


_MAKERS: Final = {
    "Unflatten": _unflat,
    "Linear": _linear, "Embedding": _embedding, "Flatten": _flat, "MultiheadAttention": _attention,
    **dict.fromkeys(_CONVOLUTIONS, _convolution), **dict.fromkeys(_POOLS, _pool), **dict.fromkeys(_ADAPTIVE, _adaptive),
    **dict.fromkeys(_RECURRENT, _recurrent),
}  # fmt: skip
