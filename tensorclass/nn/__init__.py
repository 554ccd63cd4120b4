"""Typed modules and pipelines: fields of batches in, fields of batches out, checked when they are put together."""

from ._diagnostics import CODES as CODES
from ._diagnostics import Diagnostic as Diagnostic
from ._diagnostics import PipelineWarning as PipelineWarning
from ._sequential import TensorClassSequential as TensorClassSequential
from ._stage import TensorClassModule as TensorClassModule
from ._two_step import module as module
