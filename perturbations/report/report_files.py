"""The files beside a corpus's manifests that people look at."""

CORPUS_FILES = ("preview", "corpus_page")
"""Kinds of `manifest.layout`."""
