"""Lazy stacks: containers that are kept separate along one dim, and behave as one."""
