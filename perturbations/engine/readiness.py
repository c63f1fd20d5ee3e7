"""What a run needs of the machine that is not there: models, libraries, a GPU, encoders. Nothing heavy is loaded."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from perturbations.backbones import registry as backbones
from perturbations.errors import PerturbationError, first_line
from perturbations.guides import registry as guides
from perturbations.plan import config as configuration
from perturbations.plan import recipe
from perturbations.plan.preflight import Wanted
from perturbations.suites import registry
from perturbations.system import checkpoints, project
from perturbations.system.settings import Strict
from perturbations.system.storage import PROFILES

_OF_EVALUATIONS = ("torch", "transformers", "safetensors", "scipy")
_OF_MODELS = ("torch", "transformers")
_TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model")
"""A pretrained model's folder has one of these."""


def problems(config: configuration.Config, wanted: Wanted, *, local: bool) -> list[str]:
    """What is missing, one line each.

    `local` says whether the jobs run on this machine: only then its GPU, libraries and encoders are theirs.
    """
    lines: list[str] = []
    if wanted.evaluates:
        lines += _of_evaluation(config, local=local)
    used = _used_roles(config, wanted)
    lines += [line for name, settings in used.items() for line in _of_images(name, settings)]
    roles = {name: settings for name, settings in used.items() if getattr(settings, "backend", "") == "pretrained"}
    if roles:
        lines += _missing_libraries(_OF_MODELS, "pretrained backends") if local else []
        lines += [line for name, settings in roles.items() for line in _of_role(name, settings)]
        lines += _of_device("backends.device", config.backends.device) if local else []
    if local:
        lines += _of_encoders(config, wanted)
    # Lines about a key begin with it.
    return [config.places.before(line.partition(": ")[0], line) for line in dict.fromkeys(lines)]


def _of_evaluation(config: configuration.Config, *, local: bool) -> Iterator[str]:
    wanted = config.evaluation
    if local:
        yield from _missing_libraries(_OF_EVALUATIONS, "evaluations")
        if wanted.reader == "decord" and find_spec("decord") is None:
            yield "evaluation.reader: decord is not installed: `pip install decord`, or take the reader pyav"
    for key, own in wanted.each_model():
        if local:
            yield from _of_device(f"{key}device", own.device)
        if own.pretrained is not None:
            of_backbone = f"{key}{'backbone' if wanted.models else 'pretrained'}"
            lacking = list(_of_weights(of_backbone, own.pretrained, tokenizer=True, weights=False))
            yield from lacking or _of_backbone(of_backbone, own.pretrained)
        if own.checkpoint is not None and not own.checkpoint.is_file():
            yield f"{key}checkpoint: no such file: {own.checkpoint}"
    if config.composed.language_model is not None:
        yield from _of_weights("composed.language_model.model", config.composed.language_model.model, tokenizer=True)


def _missing_libraries(names: tuple[str, ...], what: str) -> Iterator[str]:
    if missing := [name for name in names if find_spec(name) is None]:
        yield f"{', '.join(missing)} not installed; {what} need them: {project.installation('models')}"


def _of_weights(key: str, name: str, *, tokenizer: bool = False, weights: bool = True) -> Iterator[str]:
    """What a model's folder lacks, or that its weights are neither a folder nor downloaded.

    Without `weights`, the folder's weights are not looked for: who asks does it.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            yield f"{key}: {name} is no model's folder: it has no config.json"
        elif tokenizer and not any((folder / file).is_file() for file in _TOKENIZERS):
            yield f"{key}: {name} has no tokenizer: none of {', '.join(_TOKENIZERS)}"
        elif weights and not any(folder.glob("*.safetensors")):
            yield f"{key}: {name} holds no weights: no *.safetensors file"
        return
    if folder.is_absolute() or name.startswith("."):
        yield f"{key}: no such folder: {name}"
        return
    if find_spec("huggingface_hub") is None:
        return
    from perturbations.system import hub

    if reason := _reason(lambda: hub.missing_weights(name)):
        yield f"{key}: {reason}"


def _of_backbone(key: str, name: str) -> Iterator[str]:
    """What keeps a folder from being a model that evaluations know; its weights are not read."""
    folder = Path(name)
    if not folder.is_dir():
        return

    def look() -> None:
        described = checkpoints.read_config(checkpoints.Checkpoint(name, "", folder))
        backbones.backbone(described["model_type"], folder)

    if reason := _reason(look):
        yield f"{key}: {reason}"
    elif not any(folder.glob("*.safetensors")):
        yield f"{key}: {name} holds no weights: no *.safetensors file"


def _reason(look: Callable[[], str | None]) -> str | None:
    try:
        return look()
    except (PerturbationError, ValueError, OSError) as error:  # a name that no hub has
        return first_line(error)


# --- backends ---------------------------------------------------------------------------------------------------------


def _used_roles(config: configuration.Config, wanted: Wanted) -> dict[str, Strict]:
    """The players of the guides and analyses that wanted jobs use."""
    kinds = {registry.get(f"{suite}/{name}").guide for _, suite, name, _ in wanted.scenarios} - {None}
    analysed = {analysis for _, analysis, _ in wanted.analyses}
    used = {
        role.name
        for guide in guides.guides().values()
        if guide.name in kinds or analysed & {analysis.name for analysis in guide.analyses}
        for role in guide.roles
    }
    settings = config.backends.roles()
    return {name: settings[name] for name in sorted(used)}


def _of_images(role: str, settings: Strict) -> Iterator[str]:
    """That the folder of pictures that a role chooses from has none."""
    folder = dict(settings).get("images")
    if isinstance(folder, Path):
        from perturbations.media import images

        def look() -> None:
            images.listed(role, folder)

        if reason := _reason(look):
            yield reason


_SPACY = "nouns"


def _of_role(role: str, settings: Strict) -> Iterator[str]:
    values = dict(settings)
    for name, value in values.items():
        key = f"backends.{role}.{name}"
        if isinstance(value, Path) and not value.exists():
            yield f"{key}: no such file: {value}"
        elif f"{name}_revision" in values and isinstance(value, str):
            yield from _of_weights(key, value)
        elif name == _SPACY and isinstance(value, str) and not Path(value).is_dir() and find_spec(value) is None:
            yield f"{key}: the spaCy pipeline {value} is not installed: python -m spacy download {value}"


# --- devices ----------------------------------------------------------------------------------------------------------


def _of_device(key: str, device: str) -> Iterator[str]:
    kind, _, number = device.partition(":")
    if kind == "mps" and sys.platform != "darwin":
        yield f"{key}: mps is a device of Apple's computers; this is {sys.platform}"
    gpus = _gpus(Path("/dev"))
    if kind == "cuda" and gpus is not None and int(number or 0) >= gpus:
        yield f"{key}: {device} is not here: this machine has {gpus or 'no'} GPU{'s' if gpus != 1 else ''} of NVIDIA"


def _gpus(devices: Path) -> int | None:
    """How many GPUs of NVIDIA a folder of devices has; None where that is not known."""
    if (devices / "dxg").exists():  # Linux within Windows
        return None
    return len([path for path in devices.glob("nvidia*") if re.fullmatch("nvidia[0-9]+", path.name)])


# --- encoders ---------------------------------------------------------------------------------------------------------


def _of_encoders(config: configuration.Config, wanted: Wanted) -> Iterator[str]:
    """Encoders that jobs need and that PyAV's libraries, or the ffmpeg program, lack."""
    if isinstance(config.storage, configuration.VideoStorage) and wanted.videos:
        encoder = PROFILES[config.storage.profile].codec
        if not _has_encoder(encoder):
            yield f"storage.profile: PyAV has no encoder {encoder}: `pip install --force-reinstall av` brings a wheel"
    encoders: dict[str, str] = {}
    for collection, suite, name, severity in wanted.scenarios:
        entry = registry.get(f"{suite}/{name}", config.suites[suite].variant)
        if entry.method == "codec":
            job = recipe.from_config(config, collection, suite, name, severity)
            encoders.setdefault(str(registry.resolve(entry.kernel)(**job.params)["vcodec"]), entry.key)
    for encoder, key in encoders.items():
        if reason := _missing_in_ffmpeg(encoder):
            yield f"{key}: {reason}"


@cache
def _has_encoder(name: str) -> bool:
    try:
        import av.codec
    except ImportError:  # the jobs' own environment has it
        return True
    try:
        return av.codec.Codec(name, "w").is_encoder
    except ValueError:
        return False


@cache
def _missing_in_ffmpeg(encoder: str) -> str | None:
    try:
        from perturbations.media import program
    except ImportError:
        return None

    def look() -> None:
        program.check_ffmpeg(encoder)

    return _reason(look)
