"""Lazy stacks: containers kept apart along one dim, which answer as one."""
