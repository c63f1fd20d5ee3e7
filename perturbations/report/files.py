"""The files beside a corpus's manifests that people look at."""

CORPUS_FILES = ("preview.png", "corpus.html")
