"""Retrieval with perturbed queries: models, queries, results."""
