"""What the wing `demo` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="clips that the package draws itself",
    offers={"draw": "drawing:draw"},
    files=("perturbations/datasets/demo.py",),
)
