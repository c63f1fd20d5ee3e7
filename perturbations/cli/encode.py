"""Write the features of a corpus's clips or captions, for `score`."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from perturbations.base import shown
from perturbations.base.project import need_models
from perturbations.base.readers import READERS
from perturbations.cli.arguments import Parser, positive


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "manifests",
        nargs="+",
        type=Path,
        help="sources, videos, mixes or captions manifests, clean and perturbed; or folders of parts below work/",
    )
    parser.add_argument("--model", required=True, help="a model of transformers: its folder or downloaded name")
    parser.add_argument("--revision", help="the commit of the model's repository")
    parser.add_argument("--checkpoint", type=Path, help="fine-tuned weights")
    parser.add_argument("--num-frames", type=positive, default=12, help="frames per clip, evenly spread; default: 12")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--reader", choices=READERS, default="pyav", help="what decodes clips; it changes no result")
    parser.add_argument(
        "--perplexity",
        action="store_true",
        help="write the perplexity of perturbed captions under a causal language model, instead of features",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder, of `clips` and `captions`")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    need_models()
    if options.perplexity:
        return _perplexity(options)
    from perturbations.evaluation.models import encoder_loading
    from perturbations.evaluation.run import feature_encoding

    how = {name: getattr(options, name) for name in ("revision", "num_frames", "checkpoint", "device")}
    loaded = encoder_loading.load(options.model, **how)
    for written in feature_encoding.write(
        options.manifests, options.output, loaded, options.num_frames, options.reader
    ):
        print(shown.line(written))
    return 0


def _perplexity(options: argparse.Namespace) -> int:
    """Write `perplexity.csv`: a line per perturbation and severity, and one of the originals."""
    from perturbations.base import storage
    from perturbations.evaluation.models import perplexity
    from perturbations.manifest import files
    from perturbations.manifest.rows import TEXTS
    from perturbations.models import language_model

    manifests = [files.read_part(path, TEXTS) for path in options.manifests]
    model = language_model.load(options.model, revision=options.revision, device=options.device)
    table = perplexity.of_rows(chain.from_iterable(manifests), model.perplexity)
    for row in table.itertuples():
        left = "" if row.above == 1 else f", {row.mean_below:.1f} without"
        above = f"{row.above:.1%} above {perplexity.OUTLIER:.0f}"
        print(shown.line(f"{row.perturbation} {row.severity}: {row.mean:.1f}; {above}{left}"))
    table.insert(0, "model", model.source)
    storage.write_text(options.output / "perplexity.csv", table.to_csv(index=False))
    return 0
