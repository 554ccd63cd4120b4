# `from tensorclass.tensorclass import TensorClass`, as checkers read it; the package answers at run time.
from ._api import MetaData as MetaData
from ._api import NonTensorData as NonTensorData
from ._api import NonTensorDataBase as NonTensorDataBase
from ._api import NonTensorStack as NonTensorStack
from ._api import TensorAttrs as TensorAttrs
from ._api import TensorClass as TensorClass
from ._api import from_dataclass as from_dataclass
from ._api import is_non_tensor as is_non_tensor
from ._api import is_tensorclass as is_tensorclass
from ._api import tensorclass as tensorclass
