"""WordNet 3.0, read from its dictionary files (Debian's `wordnet-base`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from perturbations.base.errors import BackendError
from perturbations.models.role_registry import BACKENDS, Canary, Model

_FOLDER = Path("/usr/share/wordnet")

_FILES = {"NN": "noun", "VB": "verb", "JJ": "adj", "RB": "adv"}

# Morphy's rules of detachment, WordNet's own.
_ENDINGS = {
    "noun": (
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "verb": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}


class WordNet:
    """Look-up in the dictionary files. Raises `BackendError` when they are missing."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = wordnet_folder(folder)
        self._index = {name: _lines(self._folder / f"index.{name}") for name in _FILES.values()}
        self._data = {name: (self._folder / f"data.{name}").read_bytes() for name in _FILES.values()}
        self._exceptions = {name: dict(_exceptions(self._folder / f"{name}.exc")) for name in _FILES.values()}
        self.synonyms = cache(self._synonyms)

    def _synonyms(self, word: str, tag: str | None) -> tuple[str, ...]:
        """Lemmas that share a sense with `word`, sorted: of a Penn tag's part of speech, without the word's base forms.

        With None, of any part of speech, and with its base forms, which EDA and METEOR count among the synonyms.
        """
        names = _FILES.values() if tag is None else [_FILES[tag[:2]]] if tag[:2] in _FILES else []
        related = {
            lemma.replace("_", " ")
            for name in names
            for base in self._bases(word.lower().replace(" ", "_"), name)
            for offset in self._offsets(base, name)
            for lemma in self._lemmas(offset, name)
        }
        bases = {base for name in names for base in self._bases(word.lower(), name)} if tag is not None else set()
        return tuple(sorted(related - bases - {word.lower()}))

    def ambiguous(self, tag: str) -> tuple[str, ...]:
        """Single words in common use that can have the tag's part of speech and another one, sorted."""
        used = self._used()
        of_tag = used.get(_FILES.get(tag, ""), set())
        of_others = set().union(*(words for name, words in used.items() if name != _FILES.get(tag)))
        return tuple(sorted(of_tag & of_others))

    @cache  # noqa: B019  one WordNet per process
    def _used(self) -> dict[str, set[str]]:
        kinds = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
        used: dict[str, set[str]] = {}
        for line in (self._folder / "cntlist.rev").read_text(encoding="utf-8").splitlines():
            lemma, _, sense = line.split(" ")[0].partition("%")
            if lemma.isascii() and lemma.isalpha() and lemma.islower() and len(lemma) > 2:
                used.setdefault(kinds[sense[0]], set()).add(lemma)
        return used

    def _bases(self, word: str, name: str) -> list[str]:
        endings = [word[: -len(old)] + new for old, new in _ENDINGS[name] if word.endswith(old)]
        candidates = [*self._exceptions[name].get(word, ()), word, *endings]
        return [base for base in dict.fromkeys(candidates) if base and base in self._index[name]]

    def _offsets(self, lemma: str, name: str) -> list[int]:
        fields = self._index[name][lemma].split()
        return [int(offset) for offset in fields[6 + int(fields[3]) :]]

    def _lemmas(self, offset: int, name: str) -> list[str]:
        data = self._data[name]
        fields = data[offset : data.find(b"\n", offset)].decode("utf-8").split(" ")
        count = int(fields[3], 16)
        # "galore(ip)": a syntactic marker
        return [fields[4 + 2 * at].partition("(")[0].lower() for at in range(count)]


def _lines(path: Path) -> dict[str, str]:
    """The lines of an index, each by its lemma."""
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    return {line.partition(" ")[0]: line for line in lines}


def _exceptions(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        inflected, *bases = line.split()
        yield inflected, tuple(bases)


@cache
def _open_wordnet() -> WordNet:
    return WordNet()


def wordnet_folder(folder: Path | None = None) -> Path:
    """Where WordNet is, unless it is named: in PERTURB_WORDNET, or where Debian puts it.

    Raises `BackendError` when it is not there.
    """
    folder = folder or Path(os.environ.get("PERTURB_WORDNET", _FOLDER))
    if (folder / "index.noun").is_file():
        return folder
    raise BackendError(
        f"no WordNet in {folder}: `apt-get install wordnet-base`; without root, `apt-get download` it, "
        "`dpkg -x` it and name its usr/share/wordnet in PERTURB_WORDNET"
    )


def synonyms() -> Callable[[str, str | None], tuple[str, ...]]:
    """`synonyms(word, tag)`: lemmas that share a sense with the word, of a Penn tag's part of speech or of any."""
    return _open_wordnet().synonyms


def _ambiguous_words() -> Callable[[str], tuple[str, ...]]:
    """`ambiguous(tag)`: words that can have the tag's part of speech and also another."""
    return cache(_open_wordnet().ambiguous)


MODELS = (
    Model(
        role="wordnet",
        backends=BACKENDS,
        name="wordnet-3.0",
        weights="Debian's wordnet-base",
        licence="WordNet-3.0",
        load=synonyms,
        needs=(wordnet_folder,),
        canary=Canary(
            sentence="person",
            answer=lambda synonyms, word: synonyms(word, "NN"),
            holds=lambda answer, word: "someone" in answer and word not in answer,
            expected="its synonyms, someone among them",
        ),
    ),
    Model(
        role="ambiguous",
        backends=BACKENDS,
        name="wordnet-3.0",
        weights="Debian's wordnet-base",
        licence="WordNet-3.0",
        load=_ambiguous_words,
        needs=(wordnet_folder,),
        canary=Canary(
            sentence="NN",
            answer=lambda ambiguous, tag: ambiguous(tag),
            holds=lambda answer, tag: "play" in answer,
            expected="nouns that are of another part of speech too, play among them",
        ),
    ),
)
