"""Kernels that replace, insert, move and delete words, or rewrite a whole caption through a model's role."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from perturbations.text import tables
from perturbations.text.contractions import CLITICS, Tagger, core_of
from perturbations.text.grammar import DO, HAVE, Generator, Inflector
from perturbations.text.tokens import core, put, rebuild

_Synonyms = Callable[[str, str | None], Sequence[str]]
_Neighbours = Callable[[str], Sequence[str]]
_Fill = Callable[[list[str], int, str], Sequence[str]]
_Ambiguous = Callable[[str], Sequence[str]]
_Translator = Callable[[str], str]
_Styler = Callable[[str, str, Generator], str]


_MARKS = (".", ",", "!", "?", ";", ":")


# --- MM-Robustness: EDA and AEDA --------------------------------------------------------------------------------------


def synonym_replace(text: str, rng: Generator, *, ratio: float, wordnet: _Synonyms) -> str:
    """Words that are not stop words become a synonym of any sense, at all their places (Qiu et al., Tab. 8).

    As in EDA, the caption is reduced to lower-case letters first, and base forms are synonyms ("playing" -> "play").
    EDA's sets, whose order depends on PYTHONHASHSEED, are sorted here.
    """
    words = _letters_only(text).split()
    wanted = _count(ratio, words)
    content = sorted(set(words) - tables.stop_words())
    chosen: dict[str, str] = {}
    for at in rng.permutation(len(content)):
        word = content[at]
        # Drawn for every word, needed or not, so that all severities draw the same.
        candidates, place = _plain_synonyms(word, wordnet), rng.random()
        if candidates and len(chosen) < wanted:
            chosen[word] = candidates[int(place * len(candidates))]
    return _as_was(text, [chosen.get(word, word) for word in words], bool(chosen))


def word_insert(text: str, rng: Generator, *, ratio: float, skip_stop_words: bool, wordnet: _Synonyms) -> str:
    """Synonyms of random words are inserted at random places (Qiu et al., Tab. 8)."""
    words = _letters_only(text).split()
    inserted = False
    for _ in range(_count(ratio, words) if words else 0):
        for _attempt in range(10):
            word = words[int(rng.integers(len(words)))]
            candidates = [] if skip_stop_words and word in tables.stop_words() else _plain_synonyms(word, wordnet)
            if candidates:
                words.insert(int(rng.integers(len(words))), candidates[int(rng.integers(len(candidates)))])
                inserted = True
                break
    return _as_was(text, words, inserted)


def word_swap(text: str, rng: Generator, *, ratio: float) -> str:
    """Pairs of words change places (Qiu et al., Tab. 8)."""
    words = _letters_only(text).split()
    if len(words) < 2:
        return text
    for _ in range(_count(ratio, words)):
        first, second = (int(at) for at in rng.choice(len(words), size=2, replace=False))
        words[first], words[second] = words[second], words[first]
    return _as_was(text, words, True)


def word_delete(text: str, rng: Generator, *, ratio: float) -> str:
    """Each word is left out with the probability `ratio`; at least one is, and one stays (Qiu et al., Tab. 8)."""
    words = _letters_only(text).split()
    if len(words) < 2:
        return text
    luck, survivor = rng.random(len(words)), int(rng.integers(len(words)))
    # The word that a higher ratio would leave out first: so that severities stay nested.
    least = max(ratio, float(luck.min()))
    kept = [word for word, chance in zip(words, luck, strict=True) if chance > least] or [words[survivor]]
    return _as_was(text, kept, True)


def insert_punctuation(text: str, rng: Generator, *, ratio: float) -> str:
    """1 to `ratio` * words + 1 punctuation marks are inserted before random words, as in AEDA (Qiu et al., Tab. 8)."""
    words = text.split()
    marks = [_MARKS[at] for at in rng.integers(len(_MARKS), size=len(words))]
    order = rng.permutation(len(words)).tolist()
    # Not drawn from the range itself, so that a higher severity adds to the marks of a lower one.
    chosen = set(order[: 1 + int(rng.random() * int(ratio * len(words) + 1))])
    return rebuild(
        text, [token for at, word in enumerate(words) for token in ((marks[at], word) if at in chosen else (word,))]
    )


def _count(ratio: float, words: Sequence[str]) -> int:
    return max(1, int(ratio * len(words)))


def _letters_only(text: str) -> str:
    """Lower-case letters and spaces, as in EDA; EDA only keeps ASCII letters, here the letters of every script stay."""
    lowered = text.lower().replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "").replace("-", " ")
    return "".join(letter if unicodedata.category(letter)[0] in "LM" else " " for letter in lowered)


def _plain_synonyms(word: str, wordnet: _Synonyms) -> list[str]:
    plain = {" ".join(_letters_only(synonym).split()) for synonym in wordnet(word, None)}
    return sorted(plain - {word, ""})


def _as_was(text: str, words: Sequence[str], changed: bool) -> str:
    """A caption that could not be perturbed keeps its capitals and marks, and counts as unchanged."""
    return rebuild(text, words) if changed else text


# --- msrvtt_p: SwapText -----------------------------------------------------------------------------------------------


def synonym_swap(text: str, rng: Generator, *, share: float, tagger: Tagger, wordnet: _Synonyms) -> str:
    """A share of the words becomes a WordNet synonym of its part of speech, uninflected (Schiappa et al., App. A.2)."""
    words, tags = text.split(), tagger(text.split())

    def candidates(at: int) -> list[str]:
        return [synonym for synonym in wordnet(core(words[at]), tags[at]) if " " not in synonym]

    return _substitute(text, rng, _share(share, words), _of_content(words, tags, candidates))


def neighbour_swap(
    text: str, rng: Generator, *, share: float, tagger: Tagger, inflector: Inflector, neighbours: _Neighbours
) -> str:
    """A share of the words becomes a neighbour in a word embedding (Schiappa et al., App. A.2).

    The new word is one of the ten nearest words with the same tag and another lemma.
    """
    words, tags = text.split(), tagger(text.split())

    def candidates(at: int) -> list[str]:
        if tags[at][:2] not in ("NN", "VB", "JJ", "RB"):
            return []
        lemma = inflector.lemma(core(words[at]), tags[at])
        others = [word for word in neighbours(core(words[at])) if inflector.lemma(word, tags[at]) != lemma]
        return [word for word in others if tagger([*words[:at], word, *words[at + 1 :]])[at] == tags[at]][:10]

    return _substitute(text, rng, _share(share, words), _of_content(words, tags, candidates))


def masked_suggestion(text: str, rng: Generator, *, share: float, tagger: Tagger, masked_lm: _Fill) -> str:
    """A share of the words becomes words of the same part of speech that fit the gaps (Schiappa et al., App. A.2)."""
    words, tags = text.split(), tagger(text.split())
    candidates = _of_content(words, tags, lambda at: masked_lm(words, at, tags[at]))
    return _substitute(text, rng, _share(share, words), candidates)


def multi_pos_swap(text: str, rng: Generator, *, tag: str, tagger: Tagger, ambiguous: _Ambiguous) -> str:
    """Up to two words of a tag become others of that tag that can be of another tag too (Schiappa et al., App. A.2).

    Captions of 20 words or more change one word only, as in the reference.
    """
    words, tags = text.split(), tagger(text.split())
    fits = ambiguous(tag)
    return _substitute(text, rng, _few(words), lambda at: fits if tags[at] == tag else ())


def prefix_swap(text: str, rng: Generator, *, tagger: Tagger) -> str:
    """Up to two words get another first morph, keeping their tag (Schiappa et al., App. A.2)."""
    words, tags = text.split(), tagger(text.split())
    table = tables.morphs()
    return _substitute(text, rng, _few(words), lambda at: table.get((tags[at], core(words[at])), ()))


_UNLIKE_OTHERS = frozenset(("been", "being", "ever", "nobody", "none", "nothing", "never", "really"))
"""Words with a grammatical meaning that no word list of function words has: "never" is no adverb like "constantly"."""


def _of_content(
    words: Sequence[str], tags: Sequence[str], candidates: Callable[[int], Sequence[str]]
) -> Callable[[int], Sequence[str]]:
    """The candidates of content words alone: none of auxiliaries, denials, and contractions such as "isn't".

    "does gymnastics" has a verb of its own: "manage gymnastics" (Tab. 5).
    """
    left = tables.stop_words() | _UNLIKE_OTHERS

    def of_content(at: int) -> Sequence[str]:
        bare = core(words[at])
        if core_of(words[at]) in CLITICS:
            return ()
        alone = bare in DO | HAVE and tags[at + 1 : at + 2] and not tags[at + 1].startswith(("VB", "RB", "PRP"))
        is_content = alone or (bare not in left and bare.replace("-", "").isalnum())
        return candidates(at) if is_content else ()

    return of_content


def _few(words: Sequence[str]) -> int:
    return 1 if len(words) >= 20 else 2


def _share(share: float, words: Sequence[str]) -> int:
    return max(1, min(10, int(share * len(words))))


def _substitute(text: str, rng: Generator, wanted: int, candidates: Callable[[int], Sequence[str]]) -> str:
    words = text.split()
    skipped = tables.closed_class()
    replaced = 0
    for at in rng.permutation(len(words)).tolist():
        if replaced == wanted:
            break
        substitutes = candidates(at) if core(words[at]) not in skipped else ()
        new = [word for word in substitutes if word != core(words[at])]
        if new:
            words[at] = put(words[at], new[int(rng.integers(len(new)))])
            replaced += 1
    return rebuild(text, words)


# --- msrvtt_p: AddText ------------------------------------------------------------------------------------------------


def insert_adv(text: str, rng: Generator, *, tagger: Tagger) -> str:
    """An adverb before each verb (Schiappa et al., App. A.2)."""
    words = text.split()
    adverbs = tables.words("adverbs")
    longer = []
    for word, tag in zip(words, tagger(words), strict=True):
        if tag.startswith("VB") and core_of(word) not in CLITICS:
            longer.append(adverbs[int(rng.integers(len(adverbs)))])
        longer.append(word)
    return rebuild(text, longer)


def append_irrelevant(text: str, rng: Generator, *, closing_from: int) -> str:
    """An opening phrase, and a closing one in captions of `closing_from` words or more (Schiappa et al., App. A.2)."""
    openings, proverbs = tables.phrases("openings"), tables.phrases("proverbs")
    opening, proverb = openings[int(rng.integers(len(openings)))], proverbs[int(rng.integers(len(proverbs)))]
    if not text.strip():
        return text
    return f"{opening} {text} {proverb}" if len(text.split()) >= closing_from else f"{opening} {text}"


# --- both: translation, style ----------------------------------------------------------------------------------------


def back_translation(text: str, rng: Generator, *, translator: _Translator) -> str:
    """The caption translated into another language and back (Qiu et al., Tab. 8; Schiappa et al., App. A.2)."""
    return translator(text)


def restyle(text: str, rng: Generator, *, style: str, styler: _Styler) -> str:
    """The caption in another style: "formal", "casual", "passive" or "active".

    Qiu et al., Tab. 8; Schiappa et al., App. A.2.
    """
    return styler(text, style, rng)
