"""What the wing `report` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="pictures and pages of corpora",
    commands={"use what a run made": {"preview": "command"}},
    jobs=("jobs",),
    rules=("report",),
    offers={"places": "layout:PLACES", "corpus_files": "report_files:CORPUS_FILES"},
)
