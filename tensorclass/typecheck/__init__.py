"""Support for static checkers beyond annotations: the mypy plugin and the generated stubs. Doesn't import torch."""
