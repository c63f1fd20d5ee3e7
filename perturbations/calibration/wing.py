"""What the wing `calibration` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="severities of even distortion",
    jobs=("jobs",),
    targets="targets:menu",
    rules=("calibration",),
    offers={"places": "layout:PLACES", "solved": "table:parameters"},
    files=("docs/how-to/calibrate.md",),
)
