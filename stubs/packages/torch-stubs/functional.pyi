# Written by `tensorclass stubs` from torch's own; run it again after an update of torch.
from collections.abc import Iterator as _Iterator, Sequence as _Sequence
from typing import TypeVar as _TypeVar, overload as _overload
from tensorclass import TensorCollection as _TensorCollection
from tensorclass.core._base import Exactly as _Exactly
_Batch = _TypeVar("_Batch", bound=_TensorCollection)
import itertools
import operator
from collections.abc import Sequence
from typing import Any, TYPE_CHECKING
import torch
import torch.nn.functional as F
from torch import _VF, Tensor
from torch._C import _add_docstr
from torch._jit_internal import _overload as overload, boolean_dispatch
from torch._lowrank import pca_lowrank, svd_lowrank
from torch.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "block_diag",
    "cdist",
    "chain_matmul",
    "einsum",
    "istft",
    "lu",
    "norm",
    "meshgrid",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]
if TYPE_CHECKING:
    def meshgrid(
        *tensors: Tensor | list[Tensor], indexing: str | None = None
    ) -> tuple[Tensor, ...]: ...
else:
    def meshgrid(*tensors, indexing: str | None = None) -> tuple[Tensor, ...]:
        r"""Creates grids of coordinates specified by the 1D inputs in `attr`:tensors.

        This is helpful when you want to visualize data over some
        range of inputs. See below for a plotting example.

        Given :math:`N` 1D tensors :math:`T_0 \ldots T_{N-1}` as
        inputs with corresponding sizes :math:`S_0 \ldots S_{N-1}`,
        this creates :math:`N` N-dimensional tensors :math:`G_0 \ldots
        G_{N-1}`, each with shape :math:`(S_0, ..., S_{N-1})` where
        the output :math:`G_i` is constructed by expanding :math:`T_i`
        to the result shape.

        .. note::
            0D inputs are treated equivalently to 1D inputs of a
            single element.

        .. warning::
            `torch.meshgrid(*tensors)` currently has the same behavior
            as calling `numpy.meshgrid(*arrays, indexing='ij')`.

            In the future `torch.meshgrid` will transition to
            `indexing='xy'` as the default.

            https://github.com/pytorch/pytorch/issues/50276 tracks
            this issue with the goal of migrating to NumPy's behavior.

        .. seealso::

            :func:`torch.cartesian_prod` has the same effect but it
            collects the data in a tensor of vectors.

        Args:
            tensors (list of Tensor): list of scalars or 1 dimensional tensors. Scalars will be
                treated as tensors of size :math:`(1,)` automatically

            indexing: (str, optional): the indexing mode, either "xy"
                or "ij", defaults to "ij". See warning for future changes.

                If "xy" is selected, the first dimension corresponds
                to the cardinality of the second input and the second
                dimension corresponds to the cardinality of the first
                input.

                If "ij" is selected, the dimensions are in the same
                order as the cardinality of the inputs.

        Returns:
            seq (sequence of Tensors): If the input has :math:`N`
            tensors of size :math:`S_0 \ldots S_{N-1}``, then the
            output will also have :math:`N` tensors, where each tensor
            is of shape :math:`(S_0, ..., S_{N-1})`.

        Example::

            >>> x = torch.tensor([1, 2, 3])
            >>> y = torch.tensor([4, 5, 6])

            Observe the element-wise pairings across the grid, (1, 4),
            (1, 5), ..., (3, 6). This is the same thing as the
            cartesian product.
            >>> grid_x, grid_y = torch.meshgrid(x, y, indexing='ij')
            >>> grid_x
            tensor([[1, 1, 1],
                    [2, 2, 2],
                    [3, 3, 3]])
            >>> grid_y
            tensor([[4, 5, 6],
                    [4, 5, 6],
                    [4, 5, 6]])

            This correspondence can be seen when these grids are
            stacked properly.
            >>> torch.equal(torch.cat(tuple(torch.dstack([grid_x, grid_y]))),
            ...             torch.cartesian_prod(x, y))
            True

            `torch.meshgrid` is commonly used to produce a grid for
            plotting.
            >>> # xdoctest: +REQUIRES(module:matplotlib)
            >>> # xdoctest: +REQUIRES(env:DOCTEST_SHOW)
            >>> import matplotlib.pyplot as plt
            >>> xs = torch.linspace(-5, 5, steps=100)
            >>> ys = torch.linspace(-5, 5, steps=100)
            >>> x, y = torch.meshgrid(xs, ys, indexing='xy')
            >>> z = torch.sin(torch.sqrt(x * x + y * y))
            >>> ax = plt.axes(projection='3d')
            >>> ax.plot_surface(x.numpy(), y.numpy(), z.numpy())
            >>> plt.show()

        .. image:: ../_static/img/meshgrid.png
            :width: 512

        """
istft = _add_docstr(
    torch.istft,
    "istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, "
    "normalized=False, onesided=None, length=None, return_complex=False) -> Tensor:\n"
    r"""
Inverse short time Fourier Transform. This is expected to be the inverse of :func:`~torch.stft`.

.. warning::
    From version 2.1, a warning will be provided if a :attr:`window` is
    not specified. In a future release, this attribute will be required.
    Please provide the same window used in the stft call.

It has the same parameters (+ additional optional parameter of :attr:`length`) and it should return the
least squares estimation of the original signal. The algorithm will check using the NOLA condition (
nonzero overlap).

Important consideration in the parameters :attr:`window` and :attr:`center` so that the envelope
created by the summation of all the windows is never zero at certain point in time. Specifically,
:math:`\sum_{t=-\infty}^{\infty} |w|^2[n-t\times hop\_length] \cancel{=} 0`.

Since :func:`~torch.stft` discards elements at the end of the signal if they do not fit in a frame,
``istft`` may return a shorter signal than the original signal (can occur if :attr:`center` is False
since the signal isn't padded). If `length` is given in the arguments and is longer than expected,
``istft`` will pad zeros to the end of the returned signal.

If :attr:`center` is ``True``, then there will be padding e.g. ``'constant'``, ``'reflect'``, etc.
Left padding can be trimmed off exactly because they can be calculated but right padding cannot be
calculated without additional information.

Example: Suppose the last window is:
``[17, 18, 0, 0, 0]`` vs ``[18, 0, 0, 0, 0]``

The :attr:`n_fft`, :attr:`hop_length`, :attr:`win_length` are all the same which prevents the calculation
of right padding. These additional values could be zeros or a reflection of the signal so providing
:attr:`length` could be useful. If :attr:`length` is ``None`` then padding will be aggressively removed
(some loss of signal).

[1] D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier transform,"
IEEE Trans. ASSP, vol.32, no.2, pp.236-243, Apr. 1984.

Args:
    input (Tensor): The input tensor. Expected to be in the format of :func:`~torch.stft`,
        output. That is a complex tensor of shape `(B?, N, T)` where

        - `B?` is an optional batch dimension
        - `N` is the number of frequency samples, `(n_fft // 2) + 1`
          for onesided input, or otherwise `n_fft`.
        - `T` is the number of frames, `1 + length // hop_length` for centered stft,
          or `1 + (length - n_fft) // hop_length` otherwise.

        .. versionchanged:: 2.0
            Real datatype inputs are no longer supported. Input must now have a
            complex datatype, as returned by ``stft(..., return_complex=True)``.
    n_fft (int): Size of Fourier transform
    hop_length (Optional[int]): The distance between neighboring sliding window frames.
        (Default: ``n_fft // 4``)
    win_length (Optional[int]): The size of window frame and STFT filter. (Default: ``n_fft``)
    window (Optional[torch.Tensor]): The optional window function.
        Shape must be 1d and `<= n_fft`
        (Default: ``torch.ones(win_length)``)
    center (bool): Whether :attr:`input` was padded on both sides so that the :math:`t`-th frame is
        centered at time :math:`t \times \text{hop\_length}`.
        (Default: ``True``)
    normalized (bool): Whether the STFT was normalized. (Default: ``False``)
    onesided (Optional[bool]): Whether the STFT was onesided.
        (Default: ``True`` if `n_fft != fft_size` in the input size)
    length (Optional[int]): The amount to trim the signal by (i.e. the
        original signal length). Defaults to `(T - 1) * hop_length` for
        centered stft, or `n_fft + (T - 1) * hop_length` otherwise, where `T`
        is the number of input frames.
    return_complex (Optional[bool]):
        Whether the output should be complex, or if the input should be
        assumed to derive from a real signal and window.
        Note that this is incompatible with ``onesided=True``.
        (Default: ``False``)

Returns:
    Tensor: Least squares estimation of the original signal of shape `(B?, length)` where
        `B?` is an optional batch dimension from the input tensor.
""",
)
if TYPE_CHECKING:
    _unique_impl_out = Any
else:
    _unique_impl_out = tuple[Tensor, Tensor, Tensor]
_return_inverse_false = boolean_dispatch(
    arg_name="return_counts",
    arg_index=3,
    default=False,
    if_true=_return_counts,
    if_false=_return_output,
    module_name=__name__,
    func_name="unique",
)
_return_inverse_true = boolean_dispatch(
    arg_name="return_counts",
    arg_index=3,
    default=False,
    if_true=_return_inverse_and_counts,
    if_false=_return_inverse,
    module_name=__name__,
    func_name="unique",
)
unique = boolean_dispatch(
    arg_name="return_inverse",
    arg_index=2,
    default=False,
    if_true=_return_inverse_true,
    if_false=_return_inverse_false,
    module_name=__name__,
    func_name="unique",
)
_consecutive_return_inverse_false = boolean_dispatch(
    arg_name="return_counts",
    arg_index=1,
    default=False,
    if_true=_consecutive_return_counts,
    if_false=_consecutive_return_output,
    module_name=__name__,
    func_name="unique_consecutive",
)
_consecutive_return_inverse_true = boolean_dispatch(
    arg_name="return_counts",
    arg_index=1,
    default=False,
    if_true=_consecutive_return_inverse_and_counts,
    if_false=_consecutive_return_inverse,
    module_name=__name__,
    func_name="unique_consecutive",
)
unique_consecutive = boolean_dispatch(
    arg_name="return_inverse",
    arg_index=2,
    default=False,
    if_true=_consecutive_return_inverse_true,
    if_false=_consecutive_return_inverse_false,
    module_name=__name__,
    func_name="unique_consecutive",
)
if TYPE_CHECKING:
    pass
else:
    @overload
    def tensordot(
        a,
        b,
        dims: int = 2,
        out: torch.Tensor | None = None,
    ): ...
    @overload
    def tensordot(  # noqa: F811
        a,
        b,
        dims: tuple[list[int], list[int]],
        out: torch.Tensor | None = None,
    ): ...
    @overload
    def tensordot(  # noqa: F811
        a,
        b,
        dims: list[list[int]],
        out: torch.Tensor | None = None,
    ): ...
    @overload
    def tensordot(  # noqa: F811
        a,
        b,
        dims: torch.Tensor,
        out: torch.Tensor | None = None,
    ): ...
if TYPE_CHECKING:
    pass
else:
    @overload
    def norm(
        input,
        p="fro",
        dim=None,
        keepdim=False,
        out=None,
        dtype=None,
    ): ...
    @overload
    def norm(  # noqa: F811
        input,
        p="fro",
        dim=None,
        keepdim=False,
        out=None,
        dtype=None,
    ): ...
    @overload
    def norm(  # noqa: F811
        input,
        p="fro",
        dim=None,
        keepdim=False,
        out=None,
        dtype=None,
    ): ...
    @overload
    def norm(  # noqa: F811
        input,
        p="fro",
        dim=None,
        keepdim=False,
        out=None,
        dtype=None,
    ): ...
if TYPE_CHECKING:
    _ListOrSeq = Sequence[Tensor]
else:
    _ListOrSeq = list[Tensor]
lu = boolean_dispatch(
    arg_name="get_infos",
    arg_index=2,
    default=False,
    if_true=_lu_with_infos,
    if_false=_lu_no_infos,
    module_name=__name__,
    func_name="lu",
)
def broadcast_tensors(*tensors): ...
def broadcast_shapes(*shapes): ...
@_overload
def split(tensor: Tensor, split_size_or_sections: int | list[int], dim: int=0) -> tuple[Tensor, ...]: ...
@_overload
def split(tensor: _Batch, split_size_or_sections: int | list[int], dim: int=0) -> tuple[_Batch, ...]: ...
def einsum(*args: Any) -> Tensor: ...
def _meshgrid(*tensors, indexing: str | None): ...
def stft(input: Tensor, n_fft: int, hop_length: int | None=None, win_length: int | None=None, window: Tensor | None=None, center: bool=True, pad_mode: str='reflect', normalized: bool=False, onesided: bool | None=None, return_complex: bool | None=None, align_to_window: bool | None=None) -> Tensor: ...
def _unique_torch_function(input: Tensor, sorted: bool=True, return_inverse: bool=False, return_counts: bool=False, dim: int | None=None) -> Any: ...
def _unique_impl(input: Tensor, sorted: bool=True, return_inverse: bool=False, return_counts: bool=False, dim: int | None=None) -> _unique_impl_out: ...
def _unique_consecutive_torch_function(input: Tensor, return_inverse: bool=False, return_counts: bool=False, dim: int | None=None) -> Any: ...
def _unique_consecutive_impl(input: Tensor, return_inverse: bool=False, return_counts: bool=False, dim: int | None=None) -> _unique_impl_out: ...
def _return_inverse_and_counts(input, sorted=True, return_inverse=False, return_counts=False, dim=None): ...
def _return_counts(input, sorted=True, return_inverse=False, return_counts=False, dim=None): ...
def _return_output(input, sorted=True, return_inverse=False, return_counts=False, dim=None): ...
def _return_inverse(input, sorted=True, return_inverse=False, return_counts=False, dim=None): ...
def _consecutive_return_inverse_and_counts(input, return_inverse=False, return_counts=False, dim=None): ...
def _consecutive_return_counts(input, return_inverse=False, return_counts=False, dim=None): ...
def _consecutive_return_output(input, return_inverse=False, return_counts=False, dim=None): ...
def _consecutive_return_inverse(input, return_inverse=False, return_counts=False, dim=None): ...
def tensordot(a, b, dims=2, out: torch.Tensor | None=None): ...
def cartesian_prod(*tensors: Tensor) -> Tensor: ...
def block_diag(*tensors): ...
def cdist(x1: Tensor, x2: Tensor, p: float=2.0, compute_mode: str='use_mm_for_euclid_dist_if_necessary') -> Tensor: ...
@_overload
def atleast_1d(tensor: _Batch, /) -> _Batch: ...
@_overload
def atleast_1d(*tensors): ...
@_overload
def atleast_2d(tensor: _Batch, /) -> _Batch: ...
@_overload
def atleast_2d(*tensors): ...
@_overload
def atleast_3d(tensor: _Batch, /) -> _Batch: ...
@_overload
def atleast_3d(*tensors): ...
def norm(input, p: float | str | None='fro', dim=None, keepdim=False, out=None, dtype=None): ...
def unravel_index(indices: Tensor, shape: int | Sequence[int] | torch.Size) -> tuple[Tensor, ...]: ...
def _unravel_index(indices: Tensor, shape: int | Sequence[int]) -> Tensor: ...
def chain_matmul(*matrices, out=None): ...
def _lu_impl(A: Tensor, pivot: bool=True, get_infos: bool=False, out: Any=None) -> tuple[Tensor, Tensor, Tensor]: ...
def _check_list_size(out_len: int, get_infos: bool, out: _ListOrSeq) -> None: ...
def _lu_with_infos(A, pivot=True, get_infos=False, out=None): ...
def _lu_no_infos(A, pivot=True, get_infos=False, out=None): ...
