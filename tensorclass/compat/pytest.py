"""The pytest plugin of the layer: `pytest -p tensorclass.compat.pytest`."""

from ._install import install

install()
