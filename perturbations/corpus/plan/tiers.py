"""How clips are stored, as a part of their recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perturbations.media.profiles import PICTURES, PROFILES, profile_named

if TYPE_CHECKING:
    from perturbations.config import sections as configuration

Storage = Mapping[str, Any]
"""A tier and its settings, as a recipe has them in JSON.

`video` is a full-length file, with its profile ("png" and "jpeg" for pictures) and the encoder settings of the profile:
a changed setting changes the recipe. `frames` are `num_frames` uniformly sampled frames, lossless. `recipe` stores no
pixels: the clip is rendered when it is opened.
"""

UNSTORED: Storage = {"tier": "recipe"}

_MOST_FRAMES = 4096


def stored_video(profile: str) -> Storage:
    """Full-length files in a profile: of `profiles.PROFILES`, or of `profiles.PICTURES`."""
    settings = profile_named(profile)
    names = ("codec", "pix_fmt", "options", "pixel_bits", "key_frames")
    of_encoder = {name: value for name in names if (value := getattr(settings, name)) is not None}
    return {"tier": "video", "profile": profile, **of_encoder}


def stored_frames(num_frames: int) -> Storage:
    """Uniformly sampled frames."""
    return {"tier": "frames", "num_frames": num_frames}


def sampled(storage: Storage) -> int | None:
    """How many sampled frames are stored; None where whole clips are stored, or nothing."""
    return storage["num_frames"] if storage["tier"] == "frames" else None


def is_known(storage: Storage) -> bool:
    """Whether these are settings that `stored_video`, `stored_frames` or `UNSTORED` give."""
    profile, number = storage.get("profile"), storage.get("num_frames")
    if isinstance(profile, str) and profile in (*PROFILES, *PICTURES):
        return storage == stored_video(profile)
    if type(number) is int and 1 <= number <= _MOST_FRAMES:
        return storage == stored_frames(number)
    return storage == UNSTORED


def storage_of(wanted: configuration.StorageSettings, *, pictures: bool = False) -> Storage:
    """The configured storage tier, with the encoder settings of its profile.

    Pictures are stored as PNG; as JPEG by the profile "released"; not at all by the tier `recipe`.
    """
    if pictures and wanted.tier != "recipe":
        return stored_video("jpeg" if (wanted.tier, wanted.profile) == ("video", "released") else "png")
    if wanted.tier == "video":
        return stored_video(wanted.profile)
    return stored_frames(wanted.num_frames) if wanted.tier == "frames" else UNSTORED
