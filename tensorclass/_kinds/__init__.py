"""The kinds of fields, one file each, without torch: the plugin and the schema ask the same ones."""

from ._any import ANY as ANY
from ._collection import COLLECTION as COLLECTION
from ._kind import INIT_VAR as INIT_VAR
from ._kind import KINDS as KINDS
from ._kind import PENDING as PENDING
from ._kind import UNREAD as UNREAD
from ._kind import Kind as Kind
from ._kind import kind_of_mark as kind_of_mark
from ._kind import per_kind as per_kind
from ._nested_class import NESTED as NESTED
from ._per_element import PER_ELEMENT as PER_ELEMENT
from ._ragged import RAGGED as RAGGED
from ._shared import SHARED as SHARED
from ._tensor import TENSOR as TENSOR
from ._value import VALUE as VALUE
