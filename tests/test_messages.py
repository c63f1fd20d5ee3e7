"""Messages say what is wrong, whatever the error behind them says, and in any terminal."""

from __future__ import annotations

import pytest

from perturbations.errors import BackendError, first_line
from perturbations.system import hub


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(), "OSError"),
        (ValueError("  \n "), "ValueError"),
        (RuntimeError("CUDA error\nCompile with TORCH_USE_CUDA_DSA"), "CUDA error"),
        (OSError("\n not found"), "not found"),
    ],
)
def test_an_error_without_words_has_its_type_as_its_line(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_weights_that_fail_without_a_word_are_a_backend_error() -> None:
    class Loader:
        @staticmethod
        def from_pretrained(name: str, *, trust_remote_code: bool) -> object:
            raise OSError

    with pytest.raises(BackendError, match="the weights of t5 are not here"):
        hub.pretrained(Loader, "t5")
