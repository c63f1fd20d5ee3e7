"""What the wing `evaluation` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="retrieval with perturbed queries, without and with test-time adaptation",
    needs=("demo",),
    section="section:Evaluation",
    problems="mistakes:of_evaluation",
    rows="rows:KINDS",
    commands={"use what a run made": {"report": "command", "score": "score_command", "encode": "score_command"}},
    jobs=("jobs",),
    targets="targets:menu",
    rules=("evaluation_common", "evaluation"),
    offers={
        "places": "layout:PLACES",
        "fields": "layout:FIELDS",
        "complete": "protocols.registry:applied",
        "readiness": "readiness:problems",
        "work": "readiness:work",
        "shelves": "shelves:SHELVES",
    },
)
