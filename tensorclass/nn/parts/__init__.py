"""What the modules of all kinds are made of: fields, stages, results, keys, diagnostics. It knows no pipeline."""
