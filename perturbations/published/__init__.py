"""The published tables: numbers of four papers as data, and what they were measured on."""

from perturbations.published.tables import Published, values

__all__ = ["Published", "values"]
