"""Every reduction once, as data: kernels, generated methods, checkers and tests all read this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Form: TypeAlias = Literal["total", "extreme", "indexed", "running", "test", "other"]


@dataclass(frozen=True)
class Reduction:
    """One reduction.

    Args:
        name: the name of the method, and of the function in the `torch` namespace.
        form: the family of signatures. "total" returns one number, "extreme" one of the elements, "indexed" an element
            and its position, "running" one result per prefix, "test" a bool.
        doc: the first sentence of the docstring.
        options: the arguments besides dim and keepdim; the table of options in the generator has their types.
        many: whether torch can reduce several dims at once.
        staged: whether the reduction of the reductions of leaves is the reduction of all elements.
        floating: whether integers are an error, or their result is floating.
    """

    name: str
    form: Form
    doc: str
    options: tuple[str, ...] = ()
    many: bool = True
    staged: bool = False
    floating: bool = False


REDUCTIONS: Final[tuple[Reduction, ...]] = (
    Reduction("sum", "total", "Sum of every leaf.", ("dtype",), staged=True),
    Reduction("prod", "total", "Product of every leaf.", ("dtype",), many=False, staged=True),
    Reduction("mean", "total", "Mean of every leaf.", ("dtype",), floating=True),
    Reduction("std", "total", "Standard deviation of every leaf.", ("correction",), floating=True),
    Reduction("var", "total", "Variance of every leaf.", ("correction",), floating=True),
    Reduction("nansum", "total", "Sum of every leaf, where nan counts as zero.", ("dtype",), staged=True),
    Reduction("nanmean", "total", "Mean of the elements of every leaf that are not nan.", ("dtype",), floating=True),
    Reduction(
        "quantile", "total", "The `q`-th quantile of every leaf.", ("q", "interpolation"), many=False, floating=True
    ),
    Reduction("amin", "extreme", "Minimum of every leaf."),
    Reduction("amax", "extreme", "Maximum of every leaf."),
    Reduction("min", "indexed", "Minimum of every leaf, and where it is.", many=False),
    Reduction("max", "indexed", "Maximum of every leaf, and where it is.", many=False),
    Reduction("cummin", "running", "Minimum so far along a batch dim of every leaf, and where it is.", many=False),
    Reduction("cummax", "running", "Maximum so far along a batch dim of every leaf, and where it is.", many=False),
    Reduction("all", "test", "Whether all elements are true, where nonzero counts as true."),
    Reduction("any", "test", "Whether any element is true, where nonzero counts as true."),
    Reduction(
        "logsumexp", "other", "Logarithm of the summed exponentials of every leaf along batch dims.", floating=True
    ),
    Reduction(
        "softmax",
        "other",
        "Exponentials of every leaf, scaled to sum to one along a batch dim.",
        many=False,
        floating=True,
    ),
    Reduction("norm", "other", "Euclidean norm of every leaf, over all its elements.", floating=True),
)
"""Every reduction, in the order of the generated file."""
