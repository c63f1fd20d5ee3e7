"""Write a Snakefile, a config.yaml and profiles into a folder of your own."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from perturbations.base import project, shown
from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Parser

_HEADER = """# What to make. Where it runs (cores, cluster) is a matter of profiles/.
# Pages named docs/... are pages of the documentation; `perturb --schema` prints its JSON schema, for editors.
"""


_UNCAPTIONED = "clips.csv"
"""The table of clips that have no captions, in the new project."""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", type=_folder, help="the new project's folder; refused if it holds a project")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--videos", type=Path, help="your videos: their folder")
    kinds.add_argument("--pictures", type=Path, help="your pictures: their folder")
    captions = (
        "their captions, if there are any: a .csv, .tsv, .json, .jsonl or .parquet file, or Flickr30K's or COCO's .json"
    )
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--captions", type=Path, help=captions)
    files.add_argument(
        "--questions",
        type=Path,
        help="in place of captions: a table of question_id, video, question, a, b, ..., answer",
    )


def _folder(word: str) -> Path:
    """pathlib takes an empty text, as of a variable that is not defined, for the working directory."""
    if not word:
        raise argparse.ArgumentTypeError("the name is empty; `.` is the working directory")
    return Path(word)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.base import storage
    from perturbations.cli import own_dataset
    from perturbations.corpus.plan import folders

    folder: Path = options.folder
    folders.without_braces("the folder", folder.resolve())
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, not a folder: name a new one, such as {folder}_study")
    media = options.videos or options.pictures
    table = options.captions or options.questions
    if media is None and table is not None:
        raise ConfigError(
            f"--captions and --questions need the folder of their clips: perturb init {shlex.quote(str(folder))} "
            f"--videos CLIPS --{'captions' if options.captions else 'questions'} {shlex.quote(str(table))}"
        )
    if options.questions is not None and options.pictures is not None:
        raise ConfigError("--questions are about videos: give --videos")
    has_pictures = options.pictures is not None
    files = {folder / name: text for name, text in _files().items()}
    target, summary, later = "", list[str](), list[str]()
    if media is not None:
        has_questions = options.questions is not None
        written = _UNCAPTIONED if table is None else own_dataset.path_from(folder, table)
        with storage.scratch_directory() as scratch:
            if table is None:
                table = Path(scratch, written)
                files[folder / written] = own_dataset.uncaptioned(media, pictures=has_pictures)
                storage.write_text(table, files[folder / written])
            own = own_dataset.look(folder, media, table, written, pictures=has_pictures, questions=has_questions)
        summary = own.summary
        files[folder / "config.yaml"] = f"{_HEADER}\n{own.config}"
        target = f" {own.suite}_{own.name}" + (f" controls_{own.name}" if has_questions else "")
        if has_questions:
            later = _with_answers(own.name, own.suite)
        elif own.has_captions:
            later = _with_features(own.name, own.suite)
    if there := [path for path in files if path.exists() or path.is_symlink()]:
        raise ConfigError(
            f"nothing was written, because there is already: {', '.join(map(str, there))}; name another "
            "folder, or move these away"
        )
    below = {parent for path in files for parent in path.parents if parent != folder and folder in parent.parents}
    if links := sorted(str(parent) for parent in below if parent.is_symlink()):
        raise ConfigError(f"nothing was written, because these are links to other folders: {', '.join(links)}")
    for path, text in files.items():
        storage.write_text(path, text)
        print(shown.line(str(path)))
    for line in summary:
        print(shown.line(line))
    for line in (_next(folder, target), *later):
        print(line)
    return 0


def _next(folder: Path, target: str) -> str:
    """The command that makes the first corpus."""
    command = f"snakemake --cores 2{target}"
    if folder.resolve() == Path.cwd():
        return f"Now: {command}"
    if not str(folder).isprintable():  # it cannot be shown as it is typed
        return f"Now, in that folder: {command}"
    name = f"./{folder}" if str(folder).startswith("-") else str(folder)
    return f"Now: cd {shlex.quote(name)} && {command}"


def _with_features(name: str, suite: str) -> list[str]:
    """How a corpus is evaluated with one's own model, and what else there is."""
    there = f"manifests/{name}"
    encode = f"perturb encode {there}/sources.parquet {there}/captions.parquet {there}/{suite}/videos.parquet"
    score = f"perturb score features/clips features/captions/clean.npz --relevant {there}/qrels.parquet"
    return [
        "Then evaluate your model by its features (docs/how-to/features.md). Of a model of transformers, write them:",
        f"    {encode} --model MODEL -o features",
        "and score them, whoever wrote them:",
        f"    {score} --direction v2t --dataset {name} --model MODEL -o scored",
        f"Also: text_mm_robustness_{name}; `snakemake --list-target-rules` lists all",
    ]


def _with_answers(name: str, suite: str) -> list[str]:
    """How a model is asked, and how its answers are read."""
    there = f"manifests/{name}"
    return [
        "Then ask a model in lmms-eval's or VLMEvalKit's environment (docs/how-to/questions.md):",
        f"    perturb export {there}/{suite}/videos.parquet --format lmms_eval --clean -o tasks/{suite}",
        f"    perturb export {there}/controls/videos.parquet --format lmms_eval -o tasks/controls",
        "and read its answers:",
        f"    perturb answers logs --questions {there}/questions.parquet -o scored",
        f"Also: text_msrvtt_p_{name}; `snakemake --list-target-rules` lists all",
    ]


def _files() -> dict[str, str]:
    """Path in the new project -> content."""
    source = project.folder()
    workflow = source / "workflow"
    config = (source / "config.yaml").read_text(encoding="utf-8")
    comment, _, settings = config.partition("\n\n")
    if any(not line.startswith("#") for line in comment.splitlines()):
        raise ConfigError(f"{source / 'config.yaml'} does not begin with a comment")
    profiles = sorted((workflow / "profiles").glob("*/config.yaml"))
    return {
        "Snakefile": (workflow / "init" / "Snakefile").read_text(encoding="utf-8"),
        "config.yaml": f"{_HEADER}\n{settings}",
        **{f"profiles/{path.parent.name}/config.yaml": path.read_text(encoding="utf-8") for path in profiles},
    }
