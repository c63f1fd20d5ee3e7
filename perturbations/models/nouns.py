"""Nouns of a caption, by a spaCy pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
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
    _check_source(pipeline)
    try:
        # Names of people and places are not asked for, and finding them takes as long as all the rest.
        loaded = spacy.load(pipeline, exclude=["ner"])
    except Exception as error:  # whatever a damaged folder makes spaCy raise
        raise ConfigError(f"spaCy pipeline {pipeline!r} cannot be loaded: {str(error)[:300]}") from error
    _check(loaded, pipeline)
    folder = Path(pipeline)
    if folder.is_dir():
        revision = files_sha256([path for path in folder.rglob("*") if path.is_file()], folder)
    else:
        revision = str(loaded.meta["version"])
    return Nouns(loaded, {"name": folder.name, "revision": revision, "spacy": str(spacy.__version__)})


def _check_source(pipeline: str) -> None:
    """Raise `ConfigError` where spaCy would import what is no pipeline, or call what is not spaCy's own.

    It imports any installed package whose name it is given. A folder's `config.cfg` names functions (`@architectures`),
    which spaCy calls with the file's own arguments: of those only its own and its library thinc's are wanted. Its
    other files are data; code in them is not run.
    """
    settings = Path(pipeline) / "config.cfg"
    if not settings.is_file():
        if pipeline not in {one.name for one in entry_points(group="spacy_models")}:
            raise ConfigError(
                f"spaCy pipeline {pipeline!r} is not on this machine; "
                f"install it before: python -m spacy download {pipeline}"
            )
        return
    spacy = library("spacy")
    try:
        pending: list[Any] = [spacy.util.load_config(settings, interpolate=True)]
    except Exception as error:  # whatever a damaged file makes spaCy raise
        raise ConfigError(f"{settings} cannot be read: {str(error)[:300]}") from error
    while pending:
        held = pending.pop()
        pending += held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
        for kind, called in held.items() if isinstance(held, dict) else ():
            if str(kind).startswith("@") and not _is_own(spacy.registry, kind[1:], called):
                raise ConfigError(f"{settings} names a function that is not spaCy's own: {kind} = {called}")


def _is_own(registry: Any, kind: str, called: Any) -> bool:
    try:
        function = registry.get(kind, called)
    except (ValueError, AttributeError, TypeError):
        return True  # not registered: spaCy says so, where it needs it
    return str(getattr(function, "__module__", "")).partition(".")[0] in _OWN


_OWN = ("spacy", "thinc", "spacy_legacy", "spacy_loggers", "spacy_transformers", "spacy_curated_transformers")


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
