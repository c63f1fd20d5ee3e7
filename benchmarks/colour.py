"""PSNR of codec perturbations and of stored clips, for one video's pictures in many pixel formats.

    python benchmarks/colour.py VIDEO [VIDEO ...] [--frames 48] [--severity 1] [--only NAME ...]

The first frames of each video are decoded, cut to even sides, and stored again as a source of each format; FFmpeg
converts them, and tags what it says. Each cell is the row's `psnr_db`, the corpus's against the source itself; after
the slash the PSNR of `perturb` on the frames that the source decodes to; `=` where both have the same frames. The
last columns are the `storage_psnr_db` of a fog, in the profiles `high` and `compatible`. Below the formats stands the
largest difference in each column, without grey and GIF, which show other pictures.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np

from perturbations.api.functions import perturb
from perturbations.base.arrays import Image, uniform_indices
from perturbations.engine import pipeline, shards
from perturbations.engine.source import Source, source_of
from perturbations.media import decoding, program, quality
from perturbations.media.clip import Clip
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry

FFV1, X264 = ("-c:v", "ffv1"), ("-c:v", "libx264", "-preset", "ultrafast", "-qp", "0")
LIMITED, FULL = ("-color_range", "tv"), ("-color_range", "pc")
BT709 = ("-colorspace", "bt709")


def yuv(
    pix_fmt: str, *tags: str, matrix: str = "bt601", full: bool = False, codec: tuple[str, ...] = FFV1
) -> list[str]:
    """FFmpeg's arguments for a source in YUV."""
    scale = f"scale=out_color_matrix={matrix}:out_range={'full' if full else 'limited'},format={pix_fmt}"
    return ["-vf", scale, *codec, "-pix_fmt", pix_fmt, *tags]


FORMATS: dict[str, tuple[str, list[str]]] = {
    "yuv420p": ("mp4", yuv("yuv420p", codec=X264)),
    "yuv420p, tagged BT.601": ("mp4", yuv("yuv420p", *LIMITED, "-colorspace", "smpte170m", codec=X264)),
    "yuv420p, BT.709": ("mp4", yuv("yuv420p", *LIMITED, *BT709, matrix="bt709", codec=X264)),
    "yuvj420p": ("mp4", yuv("yuvj420p", *FULL, full=True, codec=X264)),
    "yuvj420p, BT.709": ("mp4", yuv("yuvj420p", *FULL, *BT709, matrix="bt709", full=True, codec=X264)),
    "yuv422p": ("mkv", yuv("yuv422p")),
    "yuv444p": ("mp4", yuv("yuv444p", codec=X264)),
    "yuv444p, BT.709": ("mp4", yuv("yuv444p", *LIMITED, *BT709, matrix="bt709", codec=X264)),
    "yuvj444p": ("mp4", yuv("yuvj444p", *FULL, full=True, codec=X264)),
    "yuv420p10le": ("mkv", yuv("yuv420p10le")),
    "yuv420p10le, BT.709": ("mkv", yuv("yuv420p10le", *LIMITED, *BT709, matrix="bt709")),
    "RGB": ("mp4", ["-c:v", "libx264rgb", "-preset", "ultrafast", "-qp", "0"]),
    "RGBA, PNG": ("mov", ["-c:v", "png", "-pix_fmt", "rgba"]),
    "pal8, PNG": ("mov", ["-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse", "-c:v", "png", "-pix_fmt", "pal8"]),
    "gray": ("mkv", ["-c:v", "ffv1", "-pix_fmt", "gray"]),
    "GIF": ("gif", ["-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse"]),
}
OTHER_PICTURES = ("pal8, PNG", "gray", "GIF")
RECIPES = [
    ("msrvtt_p/mpeg1", "released"),
    ("msrvtt_p/mpeg2", "released"),
    ("mlvp/h264_compression", "released"),
    ("mlvp/h264_compression", "paper"),
]
RATE = Fraction(25)


def pictures(video: Path, frames: int) -> Image:
    """The video's first frames, their sides even."""
    images = [frame.image for frame in islice(decoding.decode(Clip(video)), frames)]
    height, width = (side // 2 * 2 for side in images[0].shape[:2])
    return np.stack(images)[:, :height, :width]


def source_in(folder: Path, name: str, images: Image) -> Source:
    """The pictures as a source of a format."""
    extension, arguments = FORMATS[name]
    path = folder / f"{name.replace(' ', '')}.{extension}"
    size = f"{images.shape[2]}x{images.shape[1]}"
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(RATE), "-i", "-"]
    quiet = ["-hide_banner", "-loglevel", "error", "-y"]
    command = [program.ffmpeg_program(), *quiet, *raw, *arguments, f"file:{path}"]
    subprocess.run(command, input=images.tobytes(), check=True)
    listed = ListedClip(item_id="clip", source_video_id="clip", path=str(path))
    return source_of(shards.source_row("benchmark", listed))


def psnr_db(images: Image, others: Image) -> float:
    """PSNR over the frames that rows are measured on."""
    distortion = quality.Distortion(structural=False)
    for place in uniform_indices(pipeline.MEASURED_FRAMES, len(images)):
        distortion.add(images[place], others[place])
    return distortion.psnr_db


def decoded(path: Path) -> Image:
    return np.stack([frame.image for frame in decoding.decode(Clip(path))])


def cell(source: Source, key: str, variant: str, severity: int) -> tuple[float, str]:
    """The row's PSNR, and what is printed of it and of the array's."""
    entry = registry.get(key)
    wanted = recipe.make(entry, severity, variant=variant, seed=0, storage=recipe.stored_video("high"))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "clip.mp4"
        row = pipeline.produce(wanted, source, target)
        corpus = decoded(target)
    clean = decoded(source.clip.path)
    array = perturb(clean, key, severity, seed=0, item_id="clip", fps=source.fps, variant=variant)
    same = "=" if np.array_equal(corpus, array) else " "
    measured = math.nan if row.psnr_db is None else row.psnr_db
    return measured, f"{measured:.2f}/{psnr_db(clean, array):.2f}{same}"


def stored(source: Source, profile: str) -> float:
    wanted = recipe.make(registry.get("mlvp/fog"), 3, variant="released", seed=0, storage=recipe.stored_video(profile))
    with tempfile.TemporaryDirectory() as folder:
        row = pipeline.produce(wanted, source, Path(folder) / "clip.mp4")
    return math.nan if row.storage_psnr_db is None else row.storage_psnr_db


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--severity", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=FORMATS, default=list(FORMATS))
    arguments = parser.parse_args()
    for video in arguments.videos:
        names = [f"{key.partition('/')[2]} {variant}" for key, variant in RECIPES]
        print(f"\n| {video.name} | {' | '.join(names)} | stored high | compatible |")
        print("|---" * (len(names) + 3) + "|")
        columns: list[list[float]] = [[] for _ in RECIPES]
        with tempfile.TemporaryDirectory() as folder:
            images = pictures(video, arguments.frames)
            for name in arguments.only:
                source = source_in(Path(folder), name, images)
                cells = [cell(source, key, variant, arguments.severity) for key, variant in RECIPES]
                kept = [f"{stored(source, profile):.2f}" for profile in ("high", "compatible")]
                print(f"| {name} | {' | '.join(text for _, text in cells)} | {' | '.join(kept)} |", flush=True)
                if name not in OTHER_PICTURES:
                    for column, (measured, _) in zip(columns, cells, strict=True):
                        column.append(measured)
        print(f"| largest difference | {' | '.join(f'{max(column) - min(column):.2f}' for column in columns)} | | |")


if __name__ == "__main__":
    main()
