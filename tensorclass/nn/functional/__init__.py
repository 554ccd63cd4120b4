"""Moves parameters out of modules and into them: implements `from_module` and `to_module`."""
