"""The commands by which the workflow writes pages: of a corpus, of perturbed captions, and of all that lies there."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "write the page of a corpus: clips that play, counts, failures, distortion"
    parser = add_command(commands, "corpus-page", _corpus_page, text)
    parser.add_argument("videos", type=Path, help="a manifest of videos; quarantine.parquet beside it")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page, .html")

    text = "write the page of perturbed captions: before and after, by perturbation and severity"
    parser = add_command(commands, "captions-page", _captions_page, text)
    parser.add_argument("captions", type=Path, help="a manifest; caption_statistics.parquet beside it")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page, .html")

    text = "write manifests/index.html, which leads to every page, manifest and clip of this folder"
    add_command(commands, "index", _index, text)


def _corpus_page(options: argparse.Namespace) -> int:
    from perturbations.report import corpus_page

    corpus_page.write(options.videos, options.output)
    return 0


def _captions_page(options: argparse.Namespace) -> int:
    from perturbations.report import captions_page

    captions_page.write(options.captions, options.output)
    return 0


def _index(options: argparse.Namespace) -> int:
    from perturbations.report import index

    index.write(Path())
    return 0
