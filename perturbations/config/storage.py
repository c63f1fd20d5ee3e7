"""The section `storage` of `config.yaml`: what is stored of a perturbed clip."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perturbations.base.settings import Strict, Whole

Profile = Literal["lossless", "high", "compatible", "released"]


class VideoStorage(Strict):
    """Full-length files."""

    tier: Literal["video"]
    profile: Profile = Field(
        "high",
        description="lossless: exact; high: >= 40 dB; compatible: 4:2:0, plays everywhere, lossy; released: as "
        "MSRVTT-P's authors stored, the `mp4v` of OpenCV, very lossy",
    )


class FramesStorage(Strict):
    """Uniformly sampled frames, as the evaluation protocols use them."""

    tier: Literal["frames"]
    num_frames: Whole = Field(12, ge=1, le=4096, description="how many uniformly sampled frames to keep, lossless")
    profile: Profile | None = Field(None, exclude=True, description="of the tier video; without effect here")


class RecipeStorage(Strict):
    """No pixels: clips are rendered on demand."""

    tier: Literal["recipe"]


Storage = Annotated[VideoStorage | FramesStorage | RecipeStorage, Field(discriminator="tier")]
