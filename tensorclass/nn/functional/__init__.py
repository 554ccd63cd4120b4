"""Parameters out of modules and into them: the work behind `from_module` and `to_module`."""
