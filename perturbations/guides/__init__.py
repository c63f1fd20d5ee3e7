"""What kernels must know of a clip beside its frames: one file per kind of guide."""
