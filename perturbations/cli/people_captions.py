"""The command that measures perturbed captions: perplexity."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the command of this file."""
    text = "how improbable perturbed captions are to a causal language model of transformers"
    parser = add_command(commands, "perplexity", _perplexity, text)
    parser.add_argument("captions", type=Path, help="a manifest of perturbed captions, captions.parquet")
    parser.add_argument("--pretrained", required=True, help="the model: its folder or downloaded name, such as gpt2")
    parser.add_argument("--revision", help="its commit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the table, .csv")


def _perplexity(options: argparse.Namespace) -> int:
    from perturbations.base import shown, storage
    from perturbations.base.progress import logged
    from perturbations.captions import perplexity
    from perturbations.cli.common import need_models
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import TEXTS
    from perturbations.models import language_model

    need_models()
    rows = sets.read_part(options.captions, TEXTS)
    model = language_model.load(options.pretrained, revision=options.revision, device=options.device)
    scenarios = 1 + len({(row.perturbation, row.severity) for row in rows})
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\n")
    table.writerow(["model", *perplexity.PerplexityRow._fields])
    for row in logged(perplexity.of_rows(rows, model.perplexity), scenarios, "perturbations measured"):
        table.writerow([model.source, *row])
        left = "" if row.mean_below is None else f", {row.mean_below:.1f} without"
        print(shown.line(f"{row.perturbation} {row.severity}: {row.mean:.1f}; {row.above:.1%} above 500{left}"))
    storage.write_text(options.output, content.getvalue())
    return 0
