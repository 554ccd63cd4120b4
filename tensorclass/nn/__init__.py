"""Typed modules and pipelines: fields of batches in, fields of batches out, checked when they are put together."""

from ..store import Buffer as Buffer
from ..store import TensorDictParams as TensorDictParams
from ._class_module import TensorClassModuleBase as TensorClassModuleBase
from ._class_module import TensorClassModuleWrapper as TensorClassModuleWrapper
from ._diagnostics import CODES as CODES
from ._diagnostics import Diagnostic as Diagnostic
from ._diagnostics import PipelineWarning as PipelineWarning
from ._dispatch import dispatch as dispatch
from ._ensemble import EnsembleModule as EnsembleModule
from ._keyed import TensorDictModule as TensorDictModule
from ._keyed_base import TensorDictModuleBase as TensorDictModuleBase
from ._keyed_sequential import TensorDictSequential as TensorDictSequential
from ._modes import set_skip_existing as set_skip_existing
from ._modes import skip_existing as skip_existing
from ._sequential import TensorClassSequential as TensorClassSequential
from ._stage import TensorClassModule as TensorClassModule
from ._two_step import module as module
from ._wrap import TensorDictModuleWrapper as TensorDictModuleWrapper
from ._wrap import WrapModule as WrapModule
from ._wrap import as_tensordict_module as as_tensordict_module
from .functional_modules import make_functional as make_functional
