"""The command of the rule that trains the demo's encoder."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.common import need_models


def add(commands: Commands) -> None:
    """Declare the command of this file."""
    parser = add_command(commands, "train-encoder", _train_encoder, "train the small dual encoder on the demo's scenes")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")


def _train_encoder(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.demo import encoder

    encoder.train(options.output, seed=options.seed)
    return 0
