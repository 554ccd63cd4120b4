"""What functions and methods of torch make of dtypes and shapes, by name. Imports neither torch nor mypy."""

from __future__ import annotations

from typing import Final


def _rows(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


KINDS: Final[dict[str, str]] = {
    **_rows("same", """
        clone detach contiguous cpu cuda requires_grad_ pin_memory neg negative sign positive flip fliplr flipud
        roll relu relu_ relu6 triu tril nan_to_num masked_fill fill_ zero_ clamp_ neg_
        masked_fill_ scatter scatter_ scatter_add scatter_add_ index_fill index_add index_copy round floor ceil trunc
        fill detach_ uniform_ normal_ random_ add_ sub_ mul_ div_ copy_ abs_ exp_ sqrt_ leaky_relu elu gelu silu mish
        hardtanh selu celu dropout softplus hardswish alpha_dropout dropout1d dropout2d normalize tanhshrink
        batch_norm layer_norm group_norm instance_norm rms_norm bernoulli_ exponential_ renorm frac
    """),
    **_rows("magnitude", "abs absolute"),
    **_rows("clamped", "clamp clip clamp_min clamp_max"),
    **_rows("squared", "square"),
    **_rows("floating", """
        exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh
        atanh sigmoid erf erfc erfinv logit lgamma digamma sinc deg2rad rad2deg softmax log_softmax softmin logsigmoid
    """),
    **_rows("boolean", "isnan isfinite isinf isposinf isneginf isreal signbit logical_not isin"),
    **_rows("arithmetic", "add sub subtract mul multiply maximum minimum fmax fmin remainder fmod pow floor_divide"),
    **_rows("division", "div divide true_divide"),
    **_rows("comparison", "eq ne lt le gt ge less greater less_equal greater_equal not_equal isclose"),
    **_rows("comparison", "logical_and logical_or logical_xor"),
    **_rows("bitwise", "bitwise_and bitwise_or bitwise_xor bitwise_not"),
    **_rows("float_binary", "atan2 arctan2 hypot xlogy logaddexp"),
    **_rows("reduce_sum", "sum nansum prod"),
    **_rows("reduce_float", "logsumexp"),
    **_rows("spread", "std var norm"),
    **_rows("reduce_same", "amax amin mean nanmean"),
    **_rows("reduce_bool", "all any"),
    **_rows("reduce_index", "argmax argmin count_nonzero"),
    **_rows("pair", "max min median nanmedian mode"),
    **_rows("cumulative", "cumsum cumprod"),
    **_rows("cumulative_pair", "cummax cummin sort"),
    **_rows("topk", "topk"),
    **_rows("kthvalue", "kthvalue"),
    **_rows("index_same", "argsort"),
    **_rows("join", "cat concat concatenate"),
    **_rows("stack", "stack"),
    **_rows("product", "matmul mm bmm mv"),
    **_rows("select_rows", "index_select"),
    **_rows("gathered", "gather take_along_dim"),
    **_rows("one_dim", "masked_select take"),
    **_rows("unknown_dims", "repeat_interleave tile diag diagonal rot90"),
    **_rows("padded", "pad"),
    **_rows("resized", "interpolate"),
    **_rows("repeated", "repeat"),
    **_rows("windows", "unfold"),
    **_rows("differences", "diff"),
    **_rows("pooled", "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d"),
    **_rows("distances", "cdist"),
    **_rows("outer", "outer ger"),
    **_rows("one_number", "trace dot vdot"),
    **_rows("factors", "qr eigh"),
    **_rows("same", "inverse inv cholesky matrix_exp cross"),
    **_rows("where", "where"),
    **_rows("one_hot", "one_hot"),
    **_rows("loss", """
        cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy kl_div
        binary_cross_entropy_with_logits gaussian_nll_loss poisson_nll_loss
    """),
    **_rows("drawn", "bernoulli"),
    **_rows("drawn_index", "multinomial"),
    **_rows("indices", "nonzero"),
    **_rows("reshape", "reshape view"),
    **_rows("like_other", "view_as reshape_as expand_as type_as"),
    **_rows("flatten", "flatten ravel"),
    **_rows("unflatten", "unflatten"),
    **_rows("positions", "bincount searchsorted bucketize argwhere tril_indices triu_indices"),
    **_rows("equation", "einsum"),
    **_rows("dtype_of_members", "hstack vstack dstack column_stack row_stack pad_sequence"),
    **_rows("dtype_only", """
        logcumsumexp quantile nanquantile gumbel_softmax pixel_shuffle pixel_unshuffle glu rrelu lerp
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d grid_sample
    """),
    **_rows("unsqueeze", "unsqueeze"),
    **_rows("squeeze", "squeeze"),
    **_rows("permute", "permute"),
    **_rows("swap", "transpose swapaxes swapdims"),
    **_rows("turn", "t"),
    **_rows("move", "movedim moveaxis"),
    **_rows("expand", "expand broadcast_to"),
    **_rows("narrow", "narrow"),
    **_rows("select", "select"),
    **_rows("chunk", "chunk"),
    **_rows("split", "split"),
    **_rows("unbind", "unbind"),
}  # fmt: skip
"""The kind of each operation; `_torch_calls` says what a kind does."""
PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "spread": ("input", "p", "dim", "keepdim"),
    **dict.fromkeys(("reduce_sum", "reduce_float", "reduce_same", "reduce_bool"), ("input", "dim", "keepdim")),
    **dict.fromkeys(("reduce_index", "pair"), ("input", "dim", "keepdim")),
    **dict.fromkeys(("cumulative", "cumulative_pair", "index_same"), ("input", "dim")),
    "topk": ("input", "k", "dim"),
    "kthvalue": ("input", "k", "dim", "keepdim"),
    "join": ("tensors", "dim"),
    "stack": ("tensors", "dim"),
    "dtype_of_members": ("tensors",),
    "unflatten": ("input", "dim", "sizes"),
    "select_rows": ("input", "dim", "index"),
    "gathered": ("input", "dim", "index"),
    "where": ("condition", "input", "other"),
    "one_hot": ("tensor", "num_classes"),
    "flatten": ("input", "start_dim", "end_dim"),
    "unsqueeze": ("input", "dim"),
    "squeeze": ("input", "dim"),
    "swap": ("input", "dim0", "dim1"),
    "narrow": ("input", "dim", "start", "length"),
    "select": ("input", "dim", "index"),
    "chunk": ("input", "chunks", "dim"),
    "split": ("input", "split_size", "dim"),
    "unbind": ("input", "dim"),
    "drawn_index": ("input", "num_samples", "replacement"),
}
"""The parameters that are read, in order; two tensors for kinds that are not named here."""
METHODS_ONLY: Final = frozenset({"view", "view_as", "reshape_as", "expand_as", "expand", "repeat", "type_as", "unfold"})
MODULES: Final = (
    "torch", "torch._C", "torch._C._VariableFunctions", "torch.functional", "torch.nn.functional", "torch._C._nn",
    "torch.nn.utils.rnn", "torch.linalg",
)  # fmt: skip
