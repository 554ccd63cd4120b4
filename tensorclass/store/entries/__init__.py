"""Entry nodes, which are neither tensors nor containers: objects, ragged tensors, tensors that the batch shares."""
