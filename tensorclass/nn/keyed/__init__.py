"""Modules and pipelines over string keys."""
