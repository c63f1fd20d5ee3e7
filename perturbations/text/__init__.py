"""Caption perturbations: kernels, each a pure function of a text, a generator and parameters, and their pipeline."""
