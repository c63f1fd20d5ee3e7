"""What holds of wings: they are declared whole, and the spine stands without each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perturbations.base import wings

PROJECT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", wings.wings())
def test_what_a_wing_declares_is_there(name: str) -> None:
    wing = wings.wings()[name]
    for code in (wing.section, wing.problems, wing.rows, wing.targets, *wing.jobs, *wing.offers.values()):
        assert not code or wings.load(name, code) is not None
    for module in (module for modules in wing.commands.values() for module in modules):
        assert callable(wings.load(name, module).add)
    for file in (*wing.files, *(f"workflow/rules/{rule}.smk" for rule in wing.rules)):
        assert (PROJECT / file).exists(), file
