"""Guides: the facts about a clip that kernels need beside its frames. One file per kind of guide."""
