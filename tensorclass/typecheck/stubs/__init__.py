"""What `tensorclass stubs` reads and writes: source text in, stubs out. Nothing is executed."""
