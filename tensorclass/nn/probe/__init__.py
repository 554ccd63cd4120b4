"""The build check by running the modules on fake tensors: sizes, dtypes and effects that no declaration shows."""
