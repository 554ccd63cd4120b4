"""Dtypes and shapes for annotations: `Float32[Tensor, "3 h w"]`.

Type checkers see a `Tensor`; at run time the annotation has the dtype family and the dims. `Float`, `Int`, `UInt`,
`Complex`, `Inexact`, `Integer`, `Real` and `Num` are families of several dtypes, `Shaped` is any dtype.
"""

from typing import TYPE_CHECKING

from ._schema import FAMILIES
from ._schema import Shape as Shape

__all__ = [
    "BFloat16", "Bool", "Complex", "Complex128", "Complex32", "Complex64", "Float", "Float16", "Float32",
    "Float64", "Float8e4m3fn", "Float8e4m3fnuz", "Float8e5m2", "Float8e5m2fnuz", "Float8e8m0fnu", "Inexact",
    "Int", "Int16", "Int32", "Int64", "Int8", "Integer", "Num", "Real", "Shaped", "UInt", "UInt16", "UInt32",
    "UInt64", "UInt8", "Shape",
]  # fmt: skip

if TYPE_CHECKING:
    from typing import Annotated as BFloat16
    from typing import Annotated as Bool
    from typing import Annotated as Complex
    from typing import Annotated as Complex32
    from typing import Annotated as Complex64
    from typing import Annotated as Complex128
    from typing import Annotated as Float
    from typing import Annotated as Float8e4m3fn
    from typing import Annotated as Float8e4m3fnuz
    from typing import Annotated as Float8e5m2
    from typing import Annotated as Float8e5m2fnuz
    from typing import Annotated as Float8e8m0fnu
    from typing import Annotated as Float16
    from typing import Annotated as Float32
    from typing import Annotated as Float64
    from typing import Annotated as Inexact
    from typing import Annotated as Int
    from typing import Annotated as Int8
    from typing import Annotated as Int16
    from typing import Annotated as Int32
    from typing import Annotated as Int64
    from typing import Annotated as Integer
    from typing import Annotated as Num
    from typing import Annotated as Real
    from typing import Annotated as Shaped
    from typing import Annotated as UInt
    from typing import Annotated as UInt8
    from typing import Annotated as UInt16
    from typing import Annotated as UInt32
    from typing import Annotated as UInt64
else:
    globals().update(FAMILIES)
