"""The parts of all kinds of modules: fields, stages, results, keys, diagnostics. Nothing here imports pipelines."""
