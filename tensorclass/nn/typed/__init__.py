"""Modules and pipelines on the fields of classes, their generated forward, and their drawings."""
