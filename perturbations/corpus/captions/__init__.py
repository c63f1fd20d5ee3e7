"""Perturbed captions: from a recipe to rows, and how far they are from the originals."""
