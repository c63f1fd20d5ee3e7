"""Corpora in the file layouts of other programs: one file per format."""
