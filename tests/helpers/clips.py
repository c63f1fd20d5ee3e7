"""Makes small clips, sound and broken ones, with the pinned ffmpeg, so that every machine makes the same."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from perturbations.base import limits
from perturbations.base.errors import MediaError
from perturbations.corpus.jobs import clip_jobs
from perturbations.corpus.plan import clip_lists as lists
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import clip_rows
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.rows import (
    ANALYSES,
    SOURCES,
    VIDEOS,
    AnalysisRow,
    CompleteSource,
    RowKind,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.media import decoding, encoding, probing, profiles
from perturbations.media.clip import Frame, Image, MediaClip, Timing
from perturbations.models.guides.guide_registry import Known
from perturbations.suites import suite_registry

WIDTH, HEIGHT, FRAMES = 64, 48, 12
RATE = Fraction(25)
TIMING = Timing(1 / RATE, RATE)

DATASET = {"adapter": "folder", "annotations": "captions.csv", "videos": "videos"}
"""A dataset of a configuration whose files nobody reads."""

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
X264_B = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "6", "-pix_fmt", "yuv420p")
X264_10 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le")
X264_444 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p")
MPEG4 = ("-c:v", "mpeg4", "-q:v", "3")
VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-pix_fmt", "yuv420p")


def ffmpeg(*arguments: str) -> bytes:
    """What the pinned ffmpeg writes to its standard output; an error with its words."""
    command = [encoding.ffmpeg_program(), "-nostdin", "-hide_banner", "-loglevel", "error", "-y", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.decode(errors='replace')}")
    return done.stdout


@cache
def has_encoder(name: str) -> bool:
    """Whether the pinned ffmpeg has an encoder of that name."""
    return f" {name} ".encode() in ffmpeg("-encoders")


# --- sound clips -----------------------------------------------------------------------------------------------------


def make(
    path: Path,
    *output: str,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    frames: int = FRAMES,
    inputs: Sequence[str] = (),
) -> Path:
    """A moving test picture; `output` are ffmpeg's arguments for it, those of a plain H.264 without any.

    The test is skipped where this ffmpeg lacks the encoder.
    """
    if "-c:v" in output and not has_encoder(encoder := output[output.index("-c:v") + 1]):
        pytest.skip(f"this ffmpeg has no encoder {encoder}")
    path.write_bytes(_encoded(path.suffix, output or X264, size, frames, tuple(inputs)))
    return path


@cache
def _encoded(suffix: str, output: Sequence[str], size: tuple[int, int], frames: int, inputs: Sequence[str]) -> bytes:
    """The bytes of such a file, which hundreds of tests begin with."""
    # RGB, because other formats round odd sizes.
    source = f"testsrc2=size={size[0]}x{size[1]}:rate={RATE},format=rgb24"
    fixed = ("-frames:v", str(frames), "-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"clip{suffix}")
        ffmpeg("-f", "lavfi", "-i", source, *inputs, *output, *fixed, f"file:{path}")
        return path.read_bytes()


def copied(source: Path, path: Path, *output: str, inputs: Sequence[str] = ()) -> Path:
    """The same streams in another file; `inputs` are arguments of the input."""
    ffmpeg(*inputs, "-i", f"file:{source}", "-c", "copy", *output, f"file:{path}")
    return path


def noise(frames: int, height: int = HEIGHT, width: int = WIDTH, seed: int = 0) -> Image:
    """Colour noise: the hardest picture to store."""
    return np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


def timed(images: Image, ticks: Sequence[int] | None = None) -> Iterator[Frame]:
    """Images as frames at these times, one a tick without any."""
    for index, image in enumerate(images):
        yield Frame(image, index if ticks is None else ticks[index], index)


def written(path: Path, images: Image, ticks: Sequence[int] | None = None, timing: Timing = TIMING) -> Path:
    """Images as a lossless clip."""
    encoding.encode(timed(images, ticks), path, profiles.PROFILES["lossless"], timing)
    return path


def audio_only(path: Path) -> Path:
    """Sound without a picture."""
    ffmpeg("-f", "lavfi", "-i", "sine=frequency=440:duration=0.2", "-c:a", "aac", f"file:{path}")
    return path


def with_longer_sound(path: Path) -> Path:
    """A picture with a sound that lasts a second longer."""
    return make(path, *X264, "-c:a", "aac", inputs=("-f", "lavfi", "-i", "sine=frequency=440:duration=1.5"))


def with_cover(path: Path, video: Path | None) -> Path:
    """A sound with a cover picture, and a video where there is one."""
    cover = make(path.with_name("cover.png"), "-update", "1", frames=1, size=(16, 16))
    sound = audio_only(path.with_name("sound.m4a"))
    if path.suffix == ".mkv":
        inputs, covering = [sound], ("-attach", str(cover), "-metadata:s:t", "mimetype=image/png")
    else:  # first in the file
        inputs, covering = [cover, sound], ("-disposition:v:0", "attached_pic")
    inputs += [video] if video is not None else []
    named = [argument for name in inputs for argument in ("-i", str(name))]
    mapped = [argument for index in range(len(inputs)) for argument in ("-map", str(index))]
    ffmpeg(*named, *mapped, "-c", "copy", *covering, f"file:{path}")
    return path


# --- broken ones -----------------------------------------------------------------------------------------------------


def cut(source: Path, path: Path, fraction: float) -> Path:
    """The first part of a file's bytes."""
    whole = source.read_bytes()
    path.write_bytes(whole[: int(len(whole) * fraction)])
    return path


def overwritten(source: Path, path: Path, start: float, end: float) -> Path:
    """A file with random bytes between two fractions of its length."""
    whole = bytearray(source.read_bytes())
    first, last = int(start * len(whole)), int(end * len(whole))
    whole[first:last] = np.random.default_rng(0).bytes(last - first)
    path.write_bytes(whole)
    return path


def of_two_sizes(path: Path) -> Path:
    """A stream whose frames become smaller halfway."""
    large = make(path.with_name("large.h264"), *X264)
    small = make(path.with_name("small.h264"), *X264, size=(WIDTH // 2, HEIGHT // 2))
    path.write_bytes(large.read_bytes() + small.read_bytes())
    return path


# --- what others make of them ----------------------------------------------------------------------------------------


def ffmpeg_frames(path: Path, size: tuple[int, int] = (WIDTH, HEIGHT), pix_fmt: str = "rgb24") -> Image:
    """The frames as ffmpeg itself gives them; `size` is (width, height) as they are seen."""
    sequential = ("-map", "0:V:0", "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", pix_fmt, "-")
    raw = np.frombuffer(ffmpeg("-i", f"file:{path}", *sequential), np.uint8)
    shape = (size[1], size[0], 3) if pix_fmt == "rgb24" else (size[1] * 3 // 2, size[0])
    return raw.reshape(-1, *shape)


def container_times(path: Path) -> list[Fraction]:
    """When the container shows each frame, in seconds after the first."""
    with av.open(f"file:{path}") as container:
        stream = container.streams.video[0]
        ticks = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)
        assert stream.time_base is not None
        return [(tick - ticks[0]) * stream.time_base for tick in ticks]


# --- what we make of them --------------------------------------------------------------------------------------------


def decoded(path: Path, **options: Any) -> list[Frame]:
    """Every frame of a file, or of a span of it (`start_s`, `end_s`), with `decode`'s own options."""
    span = {name: options.pop(name) for name in ("start_s", "end_s") if name in options}
    return list(decoding.decode(MediaClip(path, **span), **options))


def images(path: Path, **options: Any) -> Image:
    """The same as one array."""
    return np.stack([frame.image for frame in decoded(path, **options)])


def times(path: Path, **options: Any) -> list[Fraction]:
    """The frames' times in seconds."""
    time_base = probing.probe(path).time_base
    return [frame.pts * time_base for frame in decoded(path, **options)]


# --- rows ------------------------------------------------------------------------------------------------------------


def listed(path: Path, item_id: str = "it", **columns: Any) -> ListedClip:
    """A clip as planning lists it."""
    return ListedClip(item_id=item_id, source_video_id=item_id, path=str(path), **columns)


def source_row(path: Path, item_id: str = "it", **columns: Any) -> CompleteSource:
    """A clip's row of the sources manifest."""
    return clip_rows.source_row("data", listed(path, item_id, **columns))


def made_up_source(item_id: str, **columns: Any) -> CompleteSource:
    """The row of a clip that there is not."""
    known: dict[str, Any] = {"dataset": "data", "split": "test", "item_id": item_id, "path": f"{item_id}.mp4"}
    known |= dict.fromkeys(("sha256", "frames_sha256", "codec", "pix_fmt"), "0") | {"bytes": 1, "rotation": 0}
    known |= {"width": 64, "height": 48, "fps": 25.0, "frame_count": 9, "duration_s": 0.36, "status": "complete"}
    return CompleteSource(**{**known, **columns})


def video_row(wanted: recipe.VideoRecipe, **columns: Any) -> VideoRow:
    """A complete row of a videos manifest that says of its recipe what it is; `columns` stand for what is made up."""
    defaults = {
        **{"dataset": "data", "item_id": "it", "backend": "{}", "recipe_id": "0", "storage": "recipe"},
        **{"width": 64, "height": 48, "fps": 25.0, "frame_count": 9, "duration_s": 0.36, "status": "complete"},
        **{"source_path": "it.mp4", "source_sha256": "0", "source_frame_count": 9},
    }
    own = {"draw": wanted.draw}
    return VideoRow(**{**_of_recipe(wanted), **own, **defaults, **columns})


def source_rows(dataset: str, listed: Sequence[ListedClip]) -> list[SourceRow]:
    """The rows of a shard of clean clips, as their job makes them."""
    with tempfile.TemporaryDirectory() as folder:
        lines, part = Path(folder, "s0.jsonl"), Path(folder, "s0.parquet")
        lists.write(lines, listed)
        clip_jobs.sources(dataset=dataset, version=1, drawn=False, listed=lines, part=part, limits=limits.current())
        return list(files.read_rows(part, SOURCES))


def _parts(folder: Path, **inputs: tuple[RowKind[Any], Iterable[Any] | None]) -> dict[str, Path]:
    """The parts that a job takes, by the names of its arguments; those that are None are left out."""
    paths = {name: folder / f"{name}.parquet" for name, (_, rows) in inputs.items() if rows is not None}
    for name, path in paths.items():
        files.write(path, *inputs[name])
    return paths


def video_rows(
    wanted: recipe.VideoRecipe,
    sources: Sequence[SourceRow],
    *,
    root: Path,
    folder: Path,
    part: Path | None = None,
    known: Known | None = None,
    **options: Any,
) -> list[VideoRow]:
    """The rows of a shard of perturbed clips, as their job in `root` makes them.

    The clips lie in `folder`. `known` is what analyses know of them.
    """
    part = part or folder / "s0.parquet"
    output = [part] if wanted.storage == tiers.UNSTORED else [folder / f".{part.stem}.json", part]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as inputs, chdir(root):
        analyses = known or Known()
        paths = _parts(
            Path(inputs),
            sources=(SOURCES, sources),
            analysis=(ANALYSES, analyses.rows.values() or None),
            donors=(ANALYSES, analyses.donors or None),
        )
        output = [path.relative_to(root) for path in output]
        clip_jobs.videos(recipe=json.loads(wanted.text), output=output, **paths, **{"sound": True, **options})
    return list(files.read_rows(part, VIDEOS))


def made_row(
    key: str, tier: tiers.Storage, source: CompleteSource, folder: Path, severity: int = 3, **named: Any
) -> VideoRow:
    """A row of the videos manifest, as the workflow makes it."""
    wanted = recipe.make(suite_registry.get(key), severity, seed=0, storage=tier)
    (row,) = video_rows(wanted, [source], root=folder, folder=folder, **named)
    assert row.status == "complete", row.error
    return replace(row, path=str(folder / row.path) if row.path else None)


def text_row(wanted: recipe.TextRecipe, **columns: Any) -> TextRow:
    """The same of a perturbed caption."""
    defaults = {
        **{"dataset": "data", "caption_id": "c", "item_id": "it", "backend": wanted.backend, "recipe_id": "0"},
        **{"language": "en", "source_text": "as it was", "text": "as it is", "changed": True},
        **{"effective_change": True, "attempts": 1, "accepted": True},
    }
    return TextRow(**{**_of_recipe(wanted), **defaults, **columns})


def _of_recipe(wanted: recipe.VideoRecipe | recipe.TextRecipe) -> dict[str, Any]:
    names = ("suite", "perturbation", "severity", "variant", "seed")
    values = {"level": suite_registry.get(wanted.key).category, "params": recipe.canonical(wanted.params)}
    values["recipe"] = wanted.text
    return {**{name: getattr(wanted, name) for name in names}, **values}


def analysed(
    wanted: recipe.AnalysisRecipe,
    sources: Sequence[CompleteSource],
    folder: Path,
    before: Mapping[str, AnalysisRow] | None = None,
) -> list[AnalysisRow]:
    """The rows of an analysis, as the workflow makes them; `before` are those that it builds on, by item."""
    part = folder / wanted.analysis / "s0.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as inputs, chdir(folder):
        paths = _parts(Path(inputs), sources=(SOURCES, sources), before=(ANALYSES, before and before.values()))
        clip_jobs.analyses(recipe=json.loads(wanted.text), part=part.relative_to(folder), **paths)
    return list(files.read_rows(part, ANALYSES))


def known(
    wanted: recipe.VideoRecipe, source: CompleteSource, folder: Path, donors: Sequence[CompleteSource] = ()
) -> Known:
    """What a recipe must know of a clip; `donors` are source rows."""
    if wanted.analysis is None:
        return Known()
    rows = {row.item_id: row for row in analysed(wanted.analysis, [source], folder)}
    return Known(rows, analysed(wanted.analysis, donors, folder / "donors") if donors else [])


def write_scene(path: Path, frames: np.ndarray, rate: Fraction = RATE) -> Path:
    """Frames as a lossless clip, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return written(path, frames, timing=Timing(1 / rate, rate))


def is_marker(path: Path) -> bool:
    """Whether a file below `corpora/` is a marker of a shard."""
    tree = manifest_paths.in_tree(path, manifest_paths.CORPORA)
    place = None if tree is None else manifest_paths.place_of(tree[1].as_posix())
    return place is not None and place[0] == "clip_marker"


def unsupervised(
    work: Callable[[Any, Callable[[], None]], Any], tasks: Sequence[Any], **_: object
) -> Iterator[tuple[Any, Any, str | None]]:
    """What `supervise.run` yields of tasks that neither crash nor hang, without forking this process."""
    for task in tasks:
        try:
            yield task, work(task, lambda: None), None
        except MediaError as error:
            yield task, None, str(error)
