"""What the wing `preflight` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="what a run needs and will make, before its first job",
    commands={"before, during and after a run": {"check": "command"}},
    rules=("preflight",),
    files=("docs/how-to/check-a-run.md",),
)
