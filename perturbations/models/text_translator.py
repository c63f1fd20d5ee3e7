"""Back-translation: a caption into another language and back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import BackendError, ToolError, short
from perturbations.models.checkpoints import find_weights, pretrained
from perturbations.models.role_registry import Canary, Model, libraries, load
from perturbations.models.text_similarity import find_minilm
from perturbations.text import round_trip
from perturbations.text.tokens import differs, encodable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    Pair = tuple[Any, PreTrainedTokenizerBase]  # a model's `generate` does not type-check


# The WMT19 models' own limit.
_MOST_NEW_TOKENS = 200
_BEAMS = 5

# A hundred times what Apertium takes for as many captions as the pipeline gives it at a time.
_LIMIT_S = 120.0

# Apertium's pairs that go from English and back: Spanish, Catalan, Galician, Esperanto.
_PIVOTS = (("eng-spa", "spa-eng"), ("eng-cat", "cat-eng"), ("en-gl", "gl-en"), ("en-eo", "eo-en"))

RoundTrip = Callable[[Sequence[str]], list[str]]
_PostEdit = Callable[[str, str], str]


class BackTranslator:
    """Captions through other languages and back, post-edited; the best of several results.

    For each language, a caption is translated as it is and in a pre-edited form, and the results are post-edited
    (`perturbations.text.round_trip`). Of the results that change more than capitals and punctuation, the one most
    similar to the caption is taken; without such a result, the caption itself.

    A translator without `prepare` is called once per caption; starting Apertium takes a quarter of a second per call.
    """

    def __init__(
        self,
        pivots: Mapping[str, RoundTrip],
        embed: Callable[[Sequence[str]], NDArray[np.floating]],
        pre_edit: Callable[[str], str],
        post_edit: _PostEdit,
    ) -> None:
        self.detail = ", ".join(pivots)
        self._pivots = pivots
        self._embed = embed
        self._pre_edit = pre_edit
        self._post_edit = post_edit
        self._known: dict[str, str] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Translate captions that will be needed soon."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known and _speakable(text)))
        plain = [" ".join(text.split()) for text in new]
        edited = [self._pre_edit(text) for text in plain]
        sent = list(dict.fromkeys([*plain, *edited]))
        candidates: dict[str, list[str]] = {text: [] for text in new}
        for pivot in self._pivots.values():
            back = dict(zip(sent, pivot(sent), strict=True))
            for text, way in zip([*new, *new], [*plain, *edited], strict=True):
                candidate = self._post_edit(text, back[way])
                if differs(text, candidate) and candidate not in candidates[text]:
                    candidates[text].append(candidate)
        self._known.update((text, self._best(text, of_text)) for text, of_text in candidates.items())

    def __call__(self, text: str) -> str:
        """The caption after its way through another language; the caption itself where nothing sensible came back."""
        if not _speakable(text):
            return text
        if text not in self._known:
            self.prepare([text])
        return self._known[text]

    def _best(self, text: str, candidates: Sequence[str]) -> str:
        if len(candidates) < 2:
            return candidates[0] if candidates else text
        vectors = self._embed([text, *candidates])
        similarities = [round(float(vectors[0] @ vector), 4) for vector in vectors[1:]]
        return candidates[similarities.index(max(similarities))]


def _find_pairs() -> list[tuple[str, str]]:
    """Apertium's pairs with English that are installed. Raises `BackendError` when there is none."""
    modes = set(_apertium("-l").split()) if shutil.which("apertium") else set()
    if pairs := [pair for pair in _PIVOTS if set(pair) <= modes]:
        return pairs
    raise BackendError(
        "offline back-translation needs Apertium and one of its pairs with English: "
        "`apt-get install apertium apertium-eng-spa`"
    )


def apertium() -> BackTranslator:
    """Apertium's pairs with English that are installed (GPL, run as a program).

    Raises `BackendError` when there is none.
    """
    pairs = _find_pairs()
    rules = {"tagger": load("tagger", "offline"), "inflector": load("inflector", "offline")}
    return BackTranslator(
        {there: partial(_round_trip, there, back) for there, back in pairs},
        load("similarity", "offline").embed,
        partial(round_trip.pre_edited, **rules),
        partial(round_trip.post_edited, **rules),
    )


def _round_trip(there: str, back: str, texts: Sequence[str]) -> list[str]:
    return translate(translate(texts, there), back)


def _speakable(text: str) -> bool:
    return any(letter.isalpha() for letter in text)


def translate(texts: Sequence[str], pair: str) -> list[str]:
    """One translation per text. Only a full stop and a blank line end Apertium's context.

    Raises `ToolError` where Apertium gives fewer translations than texts, or an empty one.
    """
    if not texts:
        return []
    # Apertium drops or interprets the marks of its own stream format.
    plain = [encodable(text).translate({ord(mark): " " for mark in "^$/\\<>{}[]@*#~\0"}) for text in texts]
    output = _apertium("-u", pair, stdin="".join(f"{text} .\n\n" for text in plain))
    blocks = [block.strip().removesuffix(".").rstrip() for block in output.removesuffix("\n\n").split("\n\n")]
    if len(blocks) > len(texts):
        # Apertium cut a caption in two, so that the blocks do not match: translate halves until that caption is alone.
        if len(texts) == 1:
            blocks = [" ".join(output.split()).removesuffix(".").rstrip()]
        else:
            half = len(texts) // 2
            return translate(texts[:half], pair) + translate(texts[half:], pair)
    translated = sum(map(bool, blocks))
    if translated < len(texts):
        raise ToolError(
            f"apertium {pair} gave {translated} translations of {len(texts)} captions, the first {short(texts[0])}: "
            f"{short(output)}"
        )
    return blocks


def _apertium(*arguments: str, stdin: str = "") -> str:
    """What the program prints. Raises `ToolError` when it fails, hangs or prints something else than text."""
    command = f"apertium {' '.join(arguments)}"
    # Under a locale that the machine lacks, Apertium's parts die while its script ends well, without any output.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        # A session of its own: the script starts a chain of programs, which must end with it.
        with subprocess.Popen(
            ["apertium", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(stdin.encode(), timeout=_LIMIT_S)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise ToolError(f"{command} did not answer within {_LIMIT_S:g} s") from None
                raise
    except OSError as error:
        raise ToolError(f"{command} cannot be run: {error.strerror}") from error
    if process.returncode:
        words = " ".join(errors.decode(errors="replace").split())[-200:]
        raise ToolError(f"{command} failed with exit status {process.returncode}: {words}")
    try:
        return output.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{command} gave no UTF-8 text: {short(output)}") from None


_WMT19 = ("facebook/wmt19-en-de", "facebook/wmt19-de-en")


def wmt19(there: str = _WMT19[0], back: str = _WMT19[1]) -> Callable[[str], str]:
    """Facebook's WMT19 models, English to German and back (Qiu et al., Tab. 8, after Ng et al.), by beam search."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    def pair(name: str) -> Pair:
        return pretrained(AutoModelForSeq2SeqLM, name).eval(), pretrained(AutoTokenizer, name)

    return partial(through, (pair(there), pair(back)))


def through(pairs: Sequence[Pair], text: str) -> str:
    """The caption translated by one model after the other. Raises `ToolError` where a translation is empty."""
    if not _speakable(text):
        return text
    translated = text
    for model, tokenizer in pairs:
        tokens = tokenizer(translated, return_tensors="pt", truncation=True)
        output = model.generate(**tokens, num_beams=_BEAMS, do_sample=False, max_new_tokens=_MOST_NEW_TOKENS)
        translated = str(tokenizer.batch_decode(output, skip_special_tokens=True)[0])
        if not translated.strip():
            raise ToolError(f"a translation model gives nothing for the caption {short(text)}")
    return translated


def _canary(*, changes: bool) -> Canary:
    return Canary(
        sentence="a man is talking about the car",
        answer=lambda translator, sentence: translator(sentence),
        holds=lambda answer, sentence: "car" in answer and not (changes and answer == sentence),
        expected=f"{'another' if changes else 'a'} sentence about a car",
    )


MODELS = (
    Model(
        role="translator",
        backends=("offline",),
        name="apertium-post-edited",
        weights="Debian's apertium-eng-spa, apertium-eng-cat, apertium-en-gl, apertium-eo-en: those installed",
        licence="GPL-3.0",
        load=apertium,
        needs=(_find_pairs, libraries("textblob", "lemminflect"), find_minilm),
        canary=_canary(changes=True),
    ),
    Model(
        role="translator",
        name="facebook/wmt19-en-de",
        licence="Apache-2.0",
        load=wmt19,
        needs=(libraries("torch", "transformers"), partial(find_weights, *_WMT19)),
        # Its German has no progressive, but may bring the same English back.
        canary=_canary(changes=False),
    ),
)
