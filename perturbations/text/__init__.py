"""Kernels of caption perturbations: pure functions of a text, a generator and parameters, and their word lists."""
