"""The build check: follows the declarations of what each module reads and writes through the pipeline."""
