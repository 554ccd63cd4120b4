"""Modules and pipelines over the fields of classes, the forward that is generated for them, and their pictures."""
