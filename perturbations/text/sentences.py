"""Kernels that rewrite a whole caption through a model's role: translation, style, tense."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_Generator = np.random.Generator
_Translator = Callable[[str], str]
_Styler = Callable[[str, str, _Generator], str]


def back_translation(text: str, rng: _Generator, *, translator: _Translator) -> str:
    """The caption translated into another language and back (Qiu et al., Tab. 8; Schiappa et al., App. A.2)."""
    return translator(text)


def restyle(text: str, rng: _Generator, *, style: str, styler: _Styler) -> str:
    """The caption in another style: "formal", "casual", "passive" or "active".

    Qiu et al., Tab. 8; Schiappa et al., App. A.2.
    """
    return styler(text, style, rng)
