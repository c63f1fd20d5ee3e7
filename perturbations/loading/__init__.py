"""Corpora and perturbations as Python objects that the loaders of other programs take."""
