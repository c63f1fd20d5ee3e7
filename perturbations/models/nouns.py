"""Nouns of a caption, by a spaCy pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perturbations.errors import ConfigError
from perturbations.models.loading import files_sha256, library

PROBE = "A dog runs."


class Nouns:
    """A loaded pipeline.

    Attributes:
        identity: name, revision and spaCy's version, for the manifest.
    """

    def __init__(self, pipeline: Any, identity: dict[str, str]) -> None:
        self._pipeline = pipeline
        self.identity = identity

    def keywords(self, captions: Sequence[str]) -> list[list[str]]:
        """The words to look for, one list a caption (MLVP, Alg. 3, EXTRACTNOUNS).

        They are the roots of its noun chunks, in lower case, each once, in order; the lemmas of its nouns where it has
        no noun chunk; and none where it has no noun.
        """
        return [_chunk_roots(doc) or _noun_lemmas(doc) for doc in self._pipeline.pipe(captions)]


def load(pipeline: str) -> Nouns:
    """The spaCy pipeline of this package name or folder.

    Raises:
        ConfigError: spaCy or the pipeline is not installed, or the pipeline cannot find noun chunks.
    """
    spacy = library("spacy")
    try:
        # Names of people and places are not asked for, and finding them takes as long as all the rest.
        loaded = spacy.load(pipeline, exclude=["ner"])
    except OSError as error:
        raise ConfigError(
            f"spaCy pipeline {pipeline!r} is not on this machine; "
            f"install it before: python -m spacy download {pipeline}"
        ) from error
    _check(loaded, pipeline)
    folder = Path(pipeline)
    if folder.is_dir():
        revision = files_sha256([path for path in folder.rglob("*") if path.is_file()], folder)
    else:
        revision = str(loaded.meta["version"])
    return Nouns(loaded, {"name": folder.name, "revision": revision, "spacy": str(spacy.__version__)})


def _check(pipeline: Any, name: str) -> None:
    doc = pipeline(PROBE)
    try:
        list(doc.noun_chunks)
    # spaCy raises the first without a parse, the second where the language has no rules for noun chunks.
    except (ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"spaCy pipeline {name!r} finds no noun chunks; it needs a parser, and a language for which spaCy has rules"
        ) from error
    if not doc.has_annotation("POS"):
        raise ConfigError(f"spaCy pipeline {name!r} sets no parts of speech")


def _chunk_roots(doc: Any) -> list[str]:
    return _once(chunk.root.text.lower() for chunk in doc.noun_chunks)


def _noun_lemmas(doc: Any) -> list[str]:
    return _once((token.lemma_ or token.text).lower() for token in doc if token.pos_ == "NOUN")


def _once(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
