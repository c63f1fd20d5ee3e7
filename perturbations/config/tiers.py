"""The section `storage` of `config.yaml`: what is stored of a perturbed clip."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_serializer

from perturbations.base.settings import Strict, Whole


class StorageSettings(Strict):
    """What is stored of a perturbed clip."""

    tier: Literal["video", "frames", "recipe"] = Field(
        description="video: full-length files; frames: uniformly sampled frames, as the evaluation protocols use them; "
        "recipe: no pixels, clips are rendered on demand"
    )
    profile: Literal["lossless", "high", "compatible", "released"] = Field(
        "high",
        description="of the tier video, without effect in others. lossless: exact; high: >= 40 dB; compatible: 4:2:0, "
        "plays everywhere, lossy; released: as MSRVTT-P's authors stored, the `mp4v` of OpenCV, very lossy",
    )
    num_frames: Whole = Field(
        12, ge=1, le=4096, description="of the tier frames: how many uniformly sampled frames to keep, lossless"
    )
    audio: Literal["copy", "none"] = Field(
        "copy",
        description="of the tier video. copy: the source's sound, not encoded anew, where the perturbation changes no "
        "times; none: clips without sound",
    )

    @property
    def is_silent(self) -> bool:
        """Whether videos are stored without sound."""
        return self.tier == "video" and self.audio == "none"

    @model_serializer
    def _of_its_tier(self) -> dict[str, str | int]:
        """Without what has no effect in the tier: hashes of configurations do not depend on it."""
        if self.tier == "video":
            return {"tier": self.tier, "profile": self.profile}
        return {"tier": self.tier, "num_frames": self.num_frames} if self.tier == "frames" else {"tier": self.tier}
