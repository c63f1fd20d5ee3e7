"""Fixtures that several test files use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# As the command does, before NumPy is imported: threads that wait for a core cost more than they bring.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of reference data: real clips and annotations in `data`, outputs of reference code in `golden`."""
    root = Path(os.environ.get("PERTURB_REFERENCE", Path(__file__).parents[2] / "shared"))
    if not (root / "golden").is_dir():
        pytest.skip(f"no reference data in {root}; PERTURB_REFERENCE names another folder")
    return root
