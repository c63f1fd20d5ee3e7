"""What the wing `calibration` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="severities of even distortion",
    commands={"check, repair and use a corpus": ("command",)},
    targets="targets:menu",
    rules=("calibration",),
    offers={"solved": "table:parameters"},
    files=("docs/how-to/calibrate.md",),
)
