"""Terms of use that exports of a test state."""

from __future__ import annotations

from typing import Any

SHOWN = {"rai:dataBiases": ["drawn by one hand"], "rai:personalSensitiveInformation": ["None."]}


TERMS: dict[str, Any] = {
    "license": "CC-BY-4.0",
    "creator": ("A. Author", "Ünal Ö."),
    "citation": "@misc{data}",
    "url": "https://data.test/x",
    "rai": SHOWN,
}
