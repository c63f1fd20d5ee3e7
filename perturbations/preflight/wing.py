"""What the wing `preflight` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="what a run needs and will make, before its first job",
    commands={"before and during a run": ("command",)},
    rules=("preflight",),
    files=("docs/how-to/check-a-run.md",),
)
