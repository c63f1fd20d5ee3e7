"""Corpora as files of other programs' own layout: one file per format."""
