"""What a run needs of the machine that is not there: models, libraries, a GPU, encoders. Nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from perturbations.base import features
from perturbations.base.settings import Strict
from perturbations.base.storage import PROFILES
from perturbations.config import sections as configuration
from perturbations.corpus import needs, recipe
from perturbations.models import registry as captions
from perturbations.models.guides import registry as guides
from perturbations.report.work import Work
from perturbations.suites import registry

_OF_MODELS = ("torch", "transformers")


def problems(config: configuration.Config, work: Work, *, local: bool) -> list[str]:
    """What is missing, one line each.

    `local` says whether the jobs run on this machine: only then its GPU, libraries and encoders are theirs.
    """
    lines = [*features.readiness(config, work.rules, local)]
    used = _used_roles(config, work)
    lines += [line for name, settings in used.items() for line in _of_images(name, settings)]
    roles = {name: settings for name, settings in used.items() if getattr(settings, "backend", "") == "pretrained"}
    if roles:
        lines += needs.missing_libraries(_OF_MODELS, "pretrained backends") if local else []
        lines += [line for name, settings in roles.items() for line in _of_role(name, settings)]
        lines += needs.of_device("backends.device", config.backends.device) if local else []
    if local:
        lines += _of_encoders(config, work)
    # Lines about a key begin with it.
    return [config.places.before(line.partition(": ")[0], line) for line in dict.fromkeys(lines)]


def models(config: configuration.Config, work: Work) -> list[str]:
    """Which models would run: a stand-in, or the path or name of a real one. A line each."""
    lines = [*features.models(config, work.rules)]
    for role, settings in _used_roles(config, work).items():
        if backend := getattr(settings, "backend", ""):
            named = " and ".join(value for _, value in _weights(settings)) if backend == "pretrained" else "a stand-in"
            lines.append(f"model of {role}, as backends.{role}.backend: {backend}: {named}")
    if names := sorted(work.caption_models):
        stand_ins = captions.stand_ins()
        listed = ", ".join(f"{name} (a stand-in)" if name in stand_ins else name for name in names)
        lines.append(f"models of captions, as backends.captions.backend: {config.backends.captions.backend}: {listed}")
    return lines


# --- backends ---------------------------------------------------------------------------------------------------------


def _used_roles(config: configuration.Config, work: Work) -> dict[str, Strict]:
    """The models of the guides that wanted clips use."""
    kinds = {registry.get(f"{suite}/{name}").guide for _, suite, name, _ in work.clips}
    used = {guides.get(kind).role for kind in kinds if kind}
    return {name: role for name, role in config.backends.roles().items() if name in used}


def _of_images(role: str, settings: Strict) -> Iterator[str]:
    """That the folder of pictures that a role chooses from has none."""
    folder = dict(settings).get("images")
    if isinstance(folder, Path):
        from perturbations.media import stills

        def look() -> None:
            stills.images_in(role, folder)

        if reason := needs.reason(look):
            yield reason


_SPACY = "nouns"


def _weights(settings: Strict) -> list[tuple[str, str]]:
    """The names of a role's models, by their keys."""
    values = dict(settings)
    named = [name for name in values if f"{name}_revision" in values or name == _SPACY]
    return [(name, values[name]) for name in named if isinstance(values[name], str)]


def _of_role(role: str, settings: Strict) -> Iterator[str]:
    for name, value in _weights(settings):
        key = f"backends.{role}.{name}"
        if name != _SPACY:
            yield from needs.of_weights(key, value)
        elif not Path(value).is_dir() and find_spec(value) is None:
            yield f"{key}: the spaCy pipeline {value} is not installed: python -m spacy download {value}"


# --- encoders ---------------------------------------------------------------------------------------------------------


def _of_encoders(config: configuration.Config, work: Work) -> Iterator[str]:
    """Encoders that jobs need and that PyAV's libraries, or the ffmpeg program, lack."""
    if config.storage.tier == "video" and work.clips:
        encoder = PROFILES[config.storage.profile].codec
        if not _has_encoder(encoder):
            yield f"storage.profile: PyAV has no encoder {encoder}: `pip install --force-reinstall av` brings a wheel"
    encoders: dict[str, str] = {}
    for collection, suite, name, severity in sorted(work.clips):
        entry = registry.get(f"{suite}/{name}", config.suites[suite].variant)
        if entry.encodes:
            job = recipe.from_config(config, collection, suite, name, severity)
            if needed := entry.encoder(job.params):
                encoders.setdefault(needed, entry.key)
    for encoder, key in encoders.items():
        if reason := _missing_in_ffmpeg(encoder):
            yield f"{key}: {reason}"


@cache
def _has_encoder(name: str) -> bool:
    import av.codec

    try:
        return av.codec.Codec(name, "w").is_encoder
    except ValueError:
        return False


@cache
def _missing_in_ffmpeg(encoder: str) -> str | None:
    from perturbations.media import encoding

    return needs.reason(partial(encoding.check_ffmpeg, encoder))
