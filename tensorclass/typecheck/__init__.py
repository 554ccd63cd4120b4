"""What static checkers are told beyond the annotations: the mypy plugin and the generated stubs. Imports no torch."""
