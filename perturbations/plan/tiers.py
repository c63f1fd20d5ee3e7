"""How clips are stored, as a part of their recipe. No NumPy: Snakemake imports this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perturbations.base.records import Record
from perturbations.base.storage import profile_named

if TYPE_CHECKING:
    from perturbations.config import sections as configuration


class StoredVideo(Record):
    """A full-length file, and the encoder settings behind its profile: changing those changes the recipe.

    The profiles "png" and "jpeg" are of pictures.
    """

    tier: Literal["video"] = "video"
    profile: Literal["lossless", "high", "compatible", "released", "png", "jpeg"]
    codec: str
    pix_fmt: str
    options: dict[str, str]
    pixel_bits: int | None = None
    key_frames: int | None = None


class StoredFrames(Record):
    """Uniformly sampled frames, lossless."""

    tier: Literal["frames"] = "frames"
    num_frames: Annotated[int, Field(ge=1, le=4096)]


class Unstored(Record):
    """No pixels: rendered when opened."""

    tier: Literal["recipe"] = "recipe"


Storage = StoredVideo | StoredFrames | Unstored


def stored_video(profile: str) -> StoredVideo:
    """Full-length files in a profile: of `storage.PROFILES`, or of `storage.PICTURES`."""
    settings = profile_named(profile)
    described = {"profile": profile, "codec": settings.codec, "pix_fmt": settings.pix_fmt}
    options = {"options": dict(settings.options), "pixel_bits": settings.pixel_bits, "key_frames": settings.key_frames}
    return StoredVideo.model_validate({**described, **options})


def storage_of(wanted: configuration.StorageSettings, *, pictures: bool = False) -> Storage:
    """The configured storage tier, with the encoder settings of its profile.

    Pictures are stored as PNG; as JPEG by the profile "released"; not at all by the tier `recipe`.
    """
    if pictures and wanted.tier != "recipe":
        return stored_video("jpeg" if (wanted.tier, wanted.profile) == ("video", "released") else "png")
    if wanted.tier == "video":
        return stored_video(wanted.profile)
    return StoredFrames(num_frames=wanted.num_frames) if wanted.tier == "frames" else Unstored()
