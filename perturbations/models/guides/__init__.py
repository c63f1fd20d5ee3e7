"""Guides: what kernels must know about a clip beside its frames. One file per kind of guide."""
