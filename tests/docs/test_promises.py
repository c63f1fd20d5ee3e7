"""The page of promises names tests that there are."""

from __future__ import annotations

import re

from copies import ROOT

PAGE = (ROOT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)


def test_every_promise_has_tests_and_each_is_there_once() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    defined = re.findall(r"^def (test_\w+)", sources, re.MULTILINE)
    promises = {int(number): re.findall(r"`(test_\w+)`", tests) for number, tests in ROW.findall(PAGE)}
    assert list(promises) == list(range(1, 30))
    assert all(promises.values())
    named = {name for names in promises.values() for name in names}
    assert {name: defined.count(name) for name in named if defined.count(name) != 1} == {}
