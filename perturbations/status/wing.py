"""What the wing `status` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="how far a run is, and what failed",
    commands={"before, during and after a run": {"status": "command", "retry": "command"}},
    files=("docs/how-to/resume-and-retry.md",),
)
