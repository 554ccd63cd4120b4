"""Probing: runs the modules on fake tensors, to find sizes, dtypes and effects that declarations don't show."""
