"""A process in which torch cannot be imported."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_TORCH = """
import sys
sys.modules |= dict.fromkeys(["torch", "transformers", "scipy", "safetensors"])  # which refuses to import them
from perturbations.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, check=False)
