"""Entries that follow the batch without being containers: objects, ragged tensors, tensors of the whole batch."""
