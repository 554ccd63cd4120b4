"""The build check, only on declarations: what each module reads and writes, followed through the pipeline."""
