"""Declarations of classes as data: dims, dtypes, annotations and fields form a schema, which checks values.

Nothing here imports containers: a typed class has the attribute `__tensorclass_schema__`, an untyped container
`__tensor_collection__`.
"""

from .._dims import AnyDim as AnyDim
from .._dims import Bindings as Bindings
from .._dims import Dim as Dim
from .._dims import Dims as Dims
from .._dims import FloorDiv as FloorDiv
from .._dims import Polynomial as Polynomial
from .._dims import Variadic as Variadic
from .._dims import parse_dims as parse_dims
from .._kinds import Kind as Kind
from ._annotations import WrongDeclaration as WrongDeclaration
from ._annotations import is_collection as is_collection
from ._annotations import is_tensorclass as is_tensorclass
from ._check import Checker as Checker
from ._check import Options as Options
from ._contract import One as One
from ._contract import Rule as Rule
from ._contract import Several as Several
from ._contract import read_items as read_items
from ._contract import read_rule as read_rule
from ._diff import Change as Change
from ._diff import SchemaDiff as SchemaDiff
from ._dtypes import FAMILIES as FAMILIES
from ._dtypes import DTypeFamily as DTypeFamily
from ._dtypes import Shape as Shape
from ._dtypes import TensorSpec as TensorSpec
from ._dtypes import family_of as family_of
from ._evolution import evolution_problems as evolution_problems
from ._evolution import migrate as migrate
from ._evolution import removed_table as removed_table
from ._fields import MISSING as MISSING
from ._fields import FieldInfo as FieldInfo
from ._fields import as_field_info as as_field_info
from ._fields import field as field
from ._fields import produced as produced
from ._markers import PerElement as PerElement
from ._markers import PerElementValues as PerElementValues
from ._markers import Ragged as Ragged
from ._markers import Shared as Shared
from ._resolve import build_schema as build_schema
from ._resolve import substitute as substitute
from ._schema import Schema as Schema
from ._schema import schema as schema
from ._schema import schema_of as schema_of
from ._scope import Scope as Scope
from ._scope import is_private as is_private
from ._scope import own_annotations as own_annotations
from ._spec import EXACT as EXACT
from ._spec import FieldSpec as FieldSpec
from ._spec import FieldValidator as FieldValidator
from ._spec import TypeName as TypeName
from ._spec import type_name as type_name
from ._validate import cast_problem as cast_problem
from ._validate import check_field as check_field
from ._validate import check_fields as check_fields
from ._validate import dims_problems as dims_problems
from ._validate import infer_batch_size as infer_batch_size
from ._validate import non_tensor_problems as non_tensor_problems
from ._validate import told_batch_size as told_batch_size
