"""What the wing `composed` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="retrieval by a clip and an instruction",
    needs=("demo", "evaluation"),
    section="section:Composed",
    problems="section:problems_of",
    rows="rows:KINDS",
    jobs=("jobs",),
    targets="targets:menu",
    rules=("composed_common", "composed"),
    offers={
        "places": "layout:PLACES",
        "score_composed": "split_scores:score",
        "readiness": "readiness:problems",
        "work": "readiness:work",
        "instructions": "planning:of_instructions",
    },
    files=(
        "perturbations/exports/composed.py",
        "perturbations/evaluation/protocols/egocvr.py",
        "docs/how-to/composed.md",
        "docs/egocvr.md",
    ),
)
