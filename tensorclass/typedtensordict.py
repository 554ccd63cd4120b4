"""`TypedTensorDict`, under the module of `tensordict` that has it."""

from ._api import TypedTensorDict as TypedTensorDict
