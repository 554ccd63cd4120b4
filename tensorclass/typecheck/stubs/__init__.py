"""The implementation of `tensorclass stubs`: source text in, stubs out. Nothing is executed."""
