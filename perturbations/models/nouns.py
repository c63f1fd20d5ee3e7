"""Nouns of a caption, by a spaCy pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base.errors import ConfigError
from perturbations.models.checkpoints import files_sha256, library
from perturbations.models.role_registry import Model

if TYPE_CHECKING:
    from spacy.language import Language

_PROBE = "A dog runs."


@dataclass(frozen=True, eq=False)
class Nouns:
    """A loaded pipeline.

    Attributes:
        identity: name, revision and spaCy's version, for the manifest.
    """

    _pipeline: Language
    identity: dict[str, str]

    def keywords(self, caption: str) -> list[str]:
        """The words to look for (MLVP, Alg. 3, EXTRACTNOUNS).

        They are the roots of its noun chunks, in lower case, each once, in order; without a noun chunk, the lemmas of
        its nouns; without a noun, the list is empty.
        """
        doc = self._pipeline(caption)
        lemmas = ((token.lemma_ or token.text).lower() for token in doc if token.pos_ == "NOUN")
        return list(dict.fromkeys([chunk.root.text.lower() for chunk in doc.noun_chunks] or lemmas))


def load(pipeline: str) -> Nouns:
    """The spaCy pipeline of this package name or folder.

    Raises:
        ConfigError: spaCy or the pipeline is not installed, or the pipeline cannot find noun chunks.
    """
    spacy = library("spacy")
    folder = Path(pipeline)
    # spaCy imports any installed package by its name, a pipeline or not.
    if not folder.is_dir() and pipeline not in {entry.name for entry in entry_points(group="spacy_models")}:
        raise ConfigError(
            f"spaCy pipeline {pipeline!r} is not on this machine; "
            f"install it before: python -m spacy download {pipeline}"
        )
    try:
        # Names of people and places are not needed, and finding them takes as long as all other steps.
        loaded = spacy.load(pipeline, exclude=["ner"])
    except Exception as error:  # whatever a damaged folder makes spaCy raise
        raise ConfigError(f"spaCy pipeline {pipeline!r} cannot be loaded: {str(error)[:300]}") from error
    _check(loaded, pipeline)
    if folder.is_dir():
        revision = files_sha256([path for path in folder.rglob("*") if path.is_file()], folder)
    else:
        revision = str(loaded.meta["version"])
    return Nouns(loaded, {"name": folder.name, "revision": revision, "spacy": str(spacy.__version__)})


def _check(pipeline: Language, name: str) -> None:
    doc = pipeline(_PROBE)
    try:
        list(doc.noun_chunks)
    # spaCy raises ValueError without a parse, NotImplementedError where the language has no rules for noun chunks.
    except (ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"spaCy pipeline {name!r} finds no noun chunks; it needs a parser, and a language for which spaCy has rules"
        ) from error
    if not doc.has_annotation("POS"):
        raise ConfigError(f"spaCy pipeline {name!r} sets no parts of speech")


MODELS = (
    Model(
        role="nouns",
        name="en_core_web_sm",
        weights="spaCy",
        licence="MIT",
        load=load,
        of="guides",
    ),
)
