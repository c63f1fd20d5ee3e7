"""Back-translation: a caption into another language and back."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

from perturbations.errors import BackendError
from perturbations.text.tokens import encodable, rebuild

# The WMT19 models' own limit.
_MOST_NEW_TOKENS = 200


class Apertium:
    """English to Spanish and back by Apertium's rules, in one pass for many captions.

    A translator without `prepare` is called caption by caption; starting Apertium so often would cost a quarter of a
    second each.
    """

    def __init__(self) -> None:
        if shutil.which("apertium") is None or not {"eng-spa", "spa-eng"} <= set(_apertium("-l").split()):
            raise BackendError(
                "offline back-translation needs Apertium and its English-Spanish pair: "
                "`apt-get install apertium apertium-eng-spa`"
            )
        self._known: dict[str, str] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Translate captions that are soon asked for."""
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
    """One translation a text. Apertium carries context over what is not ended by a full stop and a blank line."""
    if not texts:
        return []
    # Apertium drops or reinterprets its own stream marks.
    plain = [encodable(text).translate({ord(mark): " " for mark in "^$/\\<>{}[]@*#~\0"}) for text in texts]
    output = _apertium("-u", pair, stdin="".join(f"{text} .\n\n" for text in plain))
    found = [block.strip() for block in output.removesuffix("\n\n").split("\n\n")]
    if len(found) == len(texts):
        return [text.removesuffix(".").rstrip() for text in found]
    # A caption that Apertium cut in two has shifted the others: translate halves until it stands alone.
    if len(texts) == 1:
        return [" ".join(output.split()).removesuffix(".").rstrip()]
    half = len(texts) // 2
    return _translate(texts[:half], pair) + _translate(texts[half:], pair)


def _apertium(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(["apertium", *arguments], input=stdin, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise BackendError(f"apertium {' '.join(arguments)} failed: {done.stderr.strip()[-200:]}")
    return done.stdout


def _tidied(original: str, translated: str) -> str:
    """The original's capital at the front (Apertium always writes one) and its white space where words are as many."""
    words = translated.split()
    if not words:
        return original
    if original.strip()[:1].islower():
        words[0] = words[0][:1].lower() + words[0][1:]
    return rebuild(original, words)


class HubTranslator:
    """Two translation models of a model hub, one after the other, beam search without sampling."""

    def __init__(self, there: Any, back: Any) -> None:
        self._pair = (there, back)

    def __call__(self, text: str) -> str:
        """The caption there and back; the caption itself where a model has nothing to say."""
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

    from perturbations.models.text_weights import pretrained

    def one(name: str) -> tuple[Any, Any]:
        return pretrained(AutoModelForSeq2SeqLM, name).eval(), pretrained(AutoTokenizer, name)

    return HubTranslator(one(there), one(back))
