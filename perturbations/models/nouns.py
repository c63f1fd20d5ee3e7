"""Nouns of a caption, by a spaCy pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from perturbations.base.checkpoints import files_sha256, library
from perturbations.base.errors import ConfigError
from perturbations.models.registry import Model

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_PROBE = "A dog runs."


@dataclass(frozen=True, eq=False)
class Nouns:
    """A loaded pipeline.

    Attributes:
        identity: name, revision and spaCy's version, for the manifest.
    """

    _pipeline: Language
    identity: dict[str, str]

    def keywords(self, captions: Sequence[str]) -> list[list[str]]:
        """The words to look for, one list per caption (MLVP, Alg. 3, EXTRACTNOUNS).

        They are the roots of its noun chunks, in lower case, each once, in order; without a noun chunk, the lemmas of
        its nouns; without a noun, the list is empty.
        """
        docs = self._pipeline.pipe(captions)
        return [list(dict.fromkeys(_chunk_roots(doc) or _noun_lemmas(doc))) for doc in docs]


def load(pipeline: str) -> Nouns:
    """The spaCy pipeline of this package name or folder.

    Raises:
        ConfigError: spaCy or the pipeline is not installed, or the pipeline cannot find noun chunks.
    """
    spacy = library("spacy")
    _check_source(pipeline)
    try:
        # Names of people and places are not needed, and finding them takes as long as all other steps.
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
    """Raise `ConfigError` where spaCy would import a package that is no pipeline, or call a function of another one.

    spaCy imports any installed package by its name, and so a component whose `source` names one. A folder's
    `config.cfg` names functions (`@architectures`), which spaCy calls with arguments from the file: only functions of
    spaCy and its libraries are allowed. The other files of a folder are data; code in them does not run.
    """
    settings = Path(pipeline) / "config.cfg"
    if not settings.is_file():
        if pipeline not in {entry.name for entry in entry_points(group="spacy_models")}:
            raise ConfigError(
                f"spaCy pipeline {pipeline!r} is not on this machine; "
                f"install it before: python -m spacy download {pipeline}"
            )
        return
    spacy = library("spacy")
    try:
        described = spacy.util.load_config(settings, interpolate=True)
    except Exception as error:  # whatever a damaged file makes spaCy raise
        raise ConfigError(f"{settings} cannot be read: {str(error)[:300]}") from error
    pending: list[object] = [described]
    for name, component in described.get("components", {}).items():
        if not isinstance(component, dict) or "source" in component:
            raise ConfigError(f"{settings} takes its component {name} from another pipeline, which is not checked")
    while pending:
        held = pending.pop()
        pending += held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
        for kind, name in held.items() if isinstance(held, dict) else ():
            if str(kind).startswith("@") and not _is_own(spacy, kind[1:], name):
                raise ConfigError(f"{settings} names a function that is not spaCy's own: {kind} = {name}")


def _is_own(spacy: ModuleType, kind: str, name: object) -> bool:
    try:
        function = spacy.registry.get(kind, name)
    except (ValueError, AttributeError, TypeError):
        return True  # not registered: spaCy raises an error if it needs the function
    return str(getattr(function, "__module__", "")).partition(".")[0] in _OWN


_OWN = ("spacy", "thinc", "spacy_legacy", "spacy_loggers", "spacy_transformers", "spacy_curated_transformers")


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


def _chunk_roots(doc: Doc) -> list[str]:
    return [chunk.root.text.lower() for chunk in doc.noun_chunks]


def _noun_lemmas(doc: Doc) -> list[str]:
    return [(token.lemma_ or token.text).lower() for token in doc if token.pos_ == "NOUN"]


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
