"""Fixtures that several test files use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of reference data: real clips and annotations in `data`, outputs of reference code in `golden`."""
    root = Path(os.environ.get("PERTURB_REFERENCE", Path(__file__).parents[2] / "shared"))
    if not (root / "golden").is_dir():
        pytest.skip(f"no reference data in {root}; PERTURB_REFERENCE names another folder")
    return root
