"""Back-translation: a caption into another language and back."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from perturbations.errors import BackendError
from perturbations.models.registry import Model
from perturbations.text.tokens import encodable, rebuild

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from perturbations.system.hub import Seq2Seq

    Pair = tuple[Seq2Seq, PreTrainedTokenizerBase]

# The WMT19 models' own limit.
_MOST_NEW_TOKENS = 200


class Apertium:
    """English to Spanish and back by Apertium's rules, in one pass for many captions.

    A translator without `prepare` is called once per caption; starting Apertium takes a quarter of a second per call.
    """

    def __init__(self) -> None:
        if shutil.which("apertium") is None or not {"eng-spa", "spa-eng"} <= set(_apertium("-l").split()):
            raise BackendError(
                "offline back-translation needs Apertium and its English-Spanish pair: "
                "`apt-get install apertium apertium-eng-spa`"
            )
        self._known: dict[str, str] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Translate captions that will be needed soon."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known and _speakable(text)))
        spanish = _translate([" ".join(text.split()) for text in new], "eng-spa")
        english = _translate(spanish, "spa-eng")
        self._known.update(zip(new, map(_tidied, new, english), strict=True))

    def __call__(self, text: str) -> str:
        """The caption in Apertium's English."""
        if not _speakable(text):
            return text
        if text not in self._known:
            self.prepare([text])
        return self._known[text]


def apertium() -> Apertium:
    """Apertium's English-Spanish pair (GPL, run as a program)."""
    return Apertium()


def _speakable(text: str) -> bool:
    return any(letter.isalpha() for letter in text)


def _translate(texts: Sequence[str], pair: str) -> list[str]:
    """One translation per text. Only a full stop and a blank line end Apertium's context."""
    if not texts:
        return []
    # Apertium drops or interprets the marks of its own stream format.
    plain = [encodable(text).translate({ord(mark): " " for mark in "^$/\\<>{}[]@*#~\0"}) for text in texts]
    output = _apertium("-u", pair, stdin="".join(f"{text} .\n\n" for text in plain))
    blocks = [block.strip() for block in output.removesuffix("\n\n").split("\n\n")]
    if len(blocks) == len(texts):
        return [text.removesuffix(".").rstrip() for text in blocks]
    # Apertium cut a caption in two, so that the blocks do not match: translate halves until that caption is alone.
    if len(texts) == 1:
        return [" ".join(output.split()).removesuffix(".").rstrip()]
    half = len(texts) // 2
    return _translate(texts[:half], pair) + _translate(texts[half:], pair)


def _apertium(*arguments: str, stdin: str = "") -> str:
    result = subprocess.run(["apertium", *arguments], input=stdin, capture_output=True, encoding="utf-8", check=False)
    if result.returncode:
        raise BackendError(f"apertium {' '.join(arguments)} failed: {result.stderr.strip()[-200:]}")
    return result.stdout


def _tidied(original: str, translated: str) -> str:
    """The translation with the original's first letter's case (Apertium writes a capital) and its white space.

    White space is kept where both have the same number of words.
    """
    words = translated.split()
    if not words:
        return original
    if original.strip()[:1].islower():
        words[0] = words[0][:1].lower() + words[0][1:]
    return rebuild(original, words)


class HubTranslator:
    """Two translation models of a model hub, there and back, with beam search and without sampling."""

    def __init__(self, there: Pair, back: Pair) -> None:
        self._pair = (there, back)

    def __call__(self, text: str) -> str:
        """The caption translated there and back; the caption itself where a translation is empty."""
        translated = text
        for model, tokenizer in self._pair:
            if not translated.strip():
                return text
            tokens = tokenizer(translated, return_tensors="pt", truncation=True)
            output = model.generate(**tokens, num_beams=5, do_sample=False, max_new_tokens=_MOST_NEW_TOKENS)
            translated = tokenizer.batch_decode(output, skip_special_tokens=True)[0]
        return translated if translated.strip() else text


def wmt19(there: str = "facebook/wmt19-en-de", back: str = "facebook/wmt19-de-en") -> HubTranslator:
    """Facebook's WMT19 models, English to German and back (Qiu et al., Tab. 8, after Ng et al.)."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    from perturbations.system.hub import pretrained

    def pair(name: str) -> Pair:
        return pretrained(AutoModelForSeq2SeqLM, name).eval(), pretrained(AutoTokenizer, name)

    return HubTranslator(pair(there), pair(back))


MODELS = (
    Model(
        role="translator",
        backends=("offline",),
        name="apertium-eng-spa",
        weights="Debian's apertium-eng-spa",
        licence="GPL-3.0",
        load=apertium,
    ),
    Model(
        role="translator",
        backends=("pretrained",),
        name="facebook/wmt19-en-de",
        weights="model hub",
        licence="Apache-2.0",
        load=wmt19,
    ),
)
