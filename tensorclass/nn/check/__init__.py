"""The build check on declarations alone: what each module reads and writes, followed through the pipeline."""
