"""The commands of composed retrieval: score features that are already computed, compute those of a video encoder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError, did_you_mean
from perturbations.cli.arguments import Commands, add_command, positive
from perturbations.cli.common import need_models

if TYPE_CHECKING:
    from perturbations.composed.records import Split
    from perturbations.composed.scores import Model, Score

_FRAMES = ("mean", "middle")
_WORDS = ("instruction", "tfcvr", "gt")
_STRATEGIES = ("text", "visual", "average", "two_stage")


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    from perturbations.composed import galleries

    parser = add_command(
        commands,
        "composed-evaluate",
        _evaluate,
        "composed retrieval: score features from EgoCVR's files, beside chance",
    )
    parser.add_argument("annotations", type=Path, help="egocvr_annotations.csv, or with galleries; its pool beside it")
    parser.add_argument("--pool", type=Path, help="egocvr_data.csv, where it does not lie beside the annotations")
    parser.add_argument(
        "--model",
        action="append",
        nargs="+",
        required=True,
        metavar=("NAME", "FILE"),
        help="a model's name, the file of its clips' features (.csv, .pt, .npy, .npz, .safetensors) and, for more than "
        "visual search, that of its texts'; of two models the first makes shortlists, and the second ranks them",
    )
    parser.add_argument("--gallery", action="append", metavar="NAME", help=f"default: {', '.join(galleries.NAMES)}")
    parser.add_argument("--words", action="append", choices=_WORDS, help="default: all that the annotations have")
    parser.add_argument("--strategy", action="append", choices=_STRATEGIES, help="default: all that the features allow")
    parser.add_argument("--frames", choices=_FRAMES, default="mean", help="of clips with several; default: their mean")
    parser.add_argument("--shortlist", type=positive, default=15, help="clips that the first stage keeps; default: 15")
    parser.add_argument(
        "--deduplicate", action="store_true", help="leave out distractors that show the query's or a target's moment"
    )
    parser.add_argument(
        "--answerable-only",
        action="store_true",
        help="leave out queries whose gallery holds no target; EgoCVR's code counts them as misses",
    )
    parser.add_argument("-o", "--output", type=Path, help="also write the table here, CSV")

    parser = add_command(
        commands, "composed-encode", _encode, "composed retrieval: write the features of your own video encoder"
    )
    parser.add_argument("annotations", type=Path, help="egocvr_annotations.csv; its pool beside it")
    parser.add_argument("--pool", type=Path, help="egocvr_data.csv, where it does not lie beside the annotations")
    parser.add_argument(
        "--encoder",
        required=True,
        metavar="MODULE:FACTORY",
        help="your code, which is imported and run: FACTORY() has encode_clips(frames) and encode_texts(texts)",
    )
    parser.add_argument("--videos", type=Path, required=True, help="the clips are VIDEOS/<video_uid>/<clip>.mp4")
    parser.add_argument("--num-frames", type=positive, default=15, help="per clip, evenly spread; default: 15")
    parser.add_argument("--batch", type=positive, default=8, help="clips encoded at once; default: 8")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder of clips.npy and texts.npy")


def _evaluate(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.base import storage
    from perturbations.composed import galleries, official
    from perturbations.composed import scores as composed_scores
    from perturbations.composed.audit import compared
    from perturbations.composed.table import as_csv, as_text
    from perturbations.retrieval import composed

    split = official.read(options.annotations, options.pool)
    for comparison in compared(split):
        print(shown.line(comparison.words()))
    names = options.gallery or [*galleries.NAMES, *split.galleries]
    known = (*galleries.NAMES, *split.galleries)
    for name in names:
        if name not in known:
            raise ConfigError(f"no gallery {name!r}; choose of {', '.join(known)}{did_you_mean(name, known)}")
    words = _words(split, options.words)
    models = [_model(option, split, words, options.frames) for option in options.model]
    if len(models) > 2 or len({model.name for model in models}) < len(models):
        raise ConfigError("--model: give one model or two, with names of their own")
    settings = list(composed_scores.settings(models, strategies=options.strategy or composed.STRATEGIES, words=words))
    if not settings:
        raise ConfigError("nothing to evaluate: the strategies need features of texts, and no model has any")
    scores = composed_scores.evaluate(
        split,
        models,
        settings,
        names,
        deduplicate=options.deduplicate,
        answerable_only=options.answerable_only,
        shortlist=options.shortlist,
    )
    rows: list[Score] = list(scores)
    print(as_text(rows), end="")
    if options.output is not None:
        facts = {"frames": options.frames, "shortlist": str(options.shortlist)}
        storage.write_text(options.output, as_csv(rows, facts))
    return 0


def _encode(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.composed import encoder as composed_encoder
    from perturbations.composed import official

    encoder = composed_encoder.load(options.encoder)
    split = official.read(options.annotations, options.pool)
    failed = composed_encoder.write(
        split, encoder, options.videos, options.output, num_frames=options.num_frames, batch=options.batch
    )
    for name, reason in failed:
        print(f"  {shown.line(f'{name}: {reason}')}")
    print(f"{options.output}: {len(split.rows_of) - len(failed):,} clips encoded, {len(failed):,} cannot be read")
    return 1 if failed else 0


def _words(split: Split, names: Sequence[str] | None) -> list[str]:
    """The words that every query has."""
    from perturbations.composed.scores import words_of

    complete = [name for name in _WORDS if all(words_of(split, name))]
    if lacking := [name for name in names or () if name not in complete]:
        raise ConfigError(f"--words {lacking[0]}: some queries have none; the annotations have {', '.join(complete)}")
    return list(names or complete)


def _model(option: Sequence[str], split: Split, words: Sequence[str], frames: str) -> Model:
    from perturbations.composed import embeddings as embeddings
    from perturbations.composed.scores import Model, words_of

    if len(option) not in (2, 3):
        raise ConfigError(f"--model {' '.join(option)}: give a name, a file of clips, and perhaps one of texts")
    kept: embeddings.Frames = "middle" if frames == "middle" else "mean"
    clips = embeddings.of_clips(embeddings.read(Path(option[1]), frames=kept), split)
    texts = {}
    if len(option) == 3:
        held = embeddings.read(Path(option[2]), embeddings.TEXTS)
        for name in words:
            try:
                texts[name] = embeddings.of_texts(held, words_of(split, name))
            except AnnotationError as error:
                raise ConfigError(f"--words {name}: {error}; --words chooses what is needed") from error
    return Model(option[0], clips, texts)
