"""The functions for other programs: corpora as sequences and datasets, perturbations as transforms."""
