"""One exception type a kind of mistake. Each message names the thing, what is allowed, and what to do."""

from __future__ import annotations


class PerturbationError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PerturbationError):
    """`config.yaml` says something that cannot be done. Stops the run before any job."""


class AnnotationError(PerturbationError):
    """An annotation file cannot be read as its adapter expects. Stops the run before any job."""


class UnknownPerturbationError(PerturbationError):
    """No suite declares a perturbation, severity or variant of that name."""


class MediaError(PerturbationError):
    """One video cannot be decoded or encoded. The item is quarantined, the shard goes on."""


class CrashError(MediaError):
    """ffmpeg crashes or fails on one video. Tried again; the clip's fault when it happens every time."""


class ToolError(PerturbationError):
    """A worker or ffmpeg was killed, cannot be started, or found no memory. Tried again, then stops the job.

    Never a clip's fault: finished items are kept, and no item is quarantined.
    """


class OutputError(PerturbationError):
    """A result cannot be written (full disk, no permission). Stops the job; finished items are kept."""


class BackendError(PerturbationError):
    """Something that plays a model's role is not installed, not downloaded or not there. Stops the run at once."""


class ManifestError(PerturbationError):
    """A manifest is missing, unreadable, or does not follow its schema."""
