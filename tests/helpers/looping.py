"""Cases that are cheap to run in one test: as tests of their own, collecting and reporting them would take longer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test; where a case fails, the message says which.

    A case has a `tmp_path` and a `monkeypatch` of its own; what a test takes of other fixtures, it leaves as it was.
    """
    cases = [{names: value} if isinstance(names, str) else dict(zip(names, value, strict=True)) for value in values]
    assert cases

    def looped(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            skipped: list[BaseException] = []
            for number, case in enumerate(cases):
                with pytest.MonkeyPatch.context() as patch:
                    own: dict[str, Any] = {"monkeypatch": patch} if "monkeypatch" in fixtures else {}
                    if "tmp_path" in fixtures:
                        own["tmp_path"] = fixtures["tmp_path"] / str(number)
                        own["tmp_path"].mkdir()
                    try:
                        test(**{**fixtures, **own}, **case)
                    except pytest.skip.Exception as reason:
                        skipped.append(reason)
                    except Exception as error:
                        error.add_note(f"of the case {case}")
                        raise
            if skipped:  # the others passed
                raise skipped[0]

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in cases[0]]
        vars(run)["__signature__"] = signature.replace(parameters=kept)
        return run

    return looped
