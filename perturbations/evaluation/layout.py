"""The paths of evaluations. `model` is the key of a configured model."""

from pathlib import Path

_JOB = "{direction}/{side}/{corpus}/{level}/{group}"

TABLES = ".tables"
"""The ending of the folder of a page's tables, which lies beside the page. No dataset's name has a dot."""

PLACES = {
    "checked_model": "work/models/{model}.json",
    "encoded": "work/{dataset}/evaluation/{model}/{modality}.safetensors",
    "evaluation_part": "work/{dataset}/evaluation/{model}/" + _JOB + ".parquet",
    "evaluation_ranks": "work/{dataset}/evaluation/{model}/" + _JOB + ".ranks.parquet",
    "results_page": "manifests/report.html",
    "results_tables": f"manifests/report{TABLES}",
}

COMPOSED = "composed"
"""The direction of queries of a clip and an instruction, and the kind of their results."""

KINDS = ("adaptation", "evaluation", COMPOSED)
"""What `tta_<dataset>`, `evaluate_<dataset>` and `composed_<dataset>` make; an adaptation includes the model without
adaptation."""

DIRECTIONS = ("v2t", "t2v", COMPOSED)

FIELDS = {"kind": "|".join(KINDS), "model": "[A-Za-z0-9_.-]+"}


def tables_of(page: Path) -> Path:
    """The folder of a page's tables: beside it."""
    return page.with_name(page.stem + TABLES)


def ranks_of(part: Path) -> Path:
    """The ranks of the results in a part: beside it."""
    return part.with_suffix(".ranks.parquet")
