"""Which results depend on the processor: everything is computed once more with vector instructions switched off.

    python benchmarks/bit_exactness.py [VIDEO ...] [--severities 1 3 5] [--settings ...] [--only WORD ...] [--jobs 2]
    python benchmarks/bit_exactness.py --keep FOLDER     # keeps the default setting's results as .npy files
    python benchmarks/bit_exactness.py --against FOLDER  # compares the default setting with those

Every setting is a process of its own: NumPy, OpenCV and its IPP, OpenBLAS, the C library's mathematics, FFmpeg's
libraries in the process, the ffmpeg program and x264 each choose their code by the processor, and each can be told to
choose the plain one. `plain` does this for all of them. What is compared with the default setting, bit by bit:

- `video`: frames of every video perturbation, offline backends, on two synthetic clips (320x240 and 161x117), on one
  that stands still, and on the given videos' first frames
- `draw`: the random numbers of every perturbation
- `analysis`: motion masks and angles, boxes, descriptors
- `quality`: PSNR and SSIM
- `style`: the drawn style images
- `text`: every caption perturbation whose backend is installed, and the sentence encoder's similarity
- `storage`: frames that were encoded in each profile and decoded again; `bytes` are the file's
- `decode`: frames decoded from the same files, 8 and 10 bits

The parent makes clips and files once, so that all processes see the same. Only x86-64 knows these switches.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import hashlib
import json
import os
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from perturbations.analysis import motion
from perturbations.api.functions import ArrayClip
from perturbations.base import rng, storage
from perturbations.base.errors import BackendError
from perturbations.config import sections as config
from perturbations.engine import guided
from perturbations.manifest.kinds import AnalysisRow
from perturbations.media import decoding, encoding, program, quality
from perturbations.media.clip import Clip, Frame, Timing
from perturbations.plan import recipe
from perturbations.suites import registry
from perturbations.video import codec, procedural_styles

FPS = 25.0
FRAMES = 6

NUMPY = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"}
OPENCV = {"OPENCV_CPU_DISABLE": "AVX512-SKX,AVX2,FP16,AVX,SSE4.2,SSE4.1"}
IPP = {"OPENCV_IPP": "disabled"}
BLAS = {"OPENBLAS_CORETYPE": "Nehalem"}
GLIBC = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX2_Usable,-FMA,-FMA4,-AVX,-AVX_Usable,-SSE4_1,-SSE4_2"}
# libavutil's flags: MMX, MMXEXT, SSE, SSE2; SSE3, SSSE3, SSE4.1, SSE4.2; CMOV, AVX, FMA3, AVX2, BMI1, BMI2
_SSE2 = 0x1 | 0x2 | 0x8 | 0x10 | 0x1000
_SSE42 = _SSE2 | 0x40 | 0x80 | 0x100 | 0x200
_AVX2 = _SSE42 | 0x4000 | 0x8000 | 0x10000 | 0x20000 | 0x40000
FFMPEG = {"FFMPEG_CPU": "0"}
X264 = {"PLAIN_X264": "1"}

SETTINGS: dict[str, dict[str, str]] = {
    "again": {},
    "numpy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
    "numpy without AVX2": NUMPY,
    "opencv without AVX-512": {"OPENCV_CPU_DISABLE": "AVX512-SKX"},
    "opencv without AVX2": {"OPENCV_CPU_DISABLE": "AVX512-SKX,AVX2"},
    "opencv without SSE4": OPENCV,
    "ipp for AVX2": {"OPENCV_IPP": "avx2"},
    "ipp for SSE4.2": {"OPENCV_IPP": "sse42"},
    "no ipp": IPP,
    "openblas for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "openblas for Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "openblas for Nehalem": BLAS,
    "libm without FMA": GLIBC,
    "ffmpeg without AVX-512": {"FFMPEG_CPU": f"{_AVX2}"},
    "ffmpeg without AVX": {"FFMPEG_CPU": f"{_SSE42}"},
    "ffmpeg for SSE2": {"FFMPEG_CPU": f"{_SSE2}"},
    "ffmpeg without SIMD": FFMPEG,
    "x264 without SIMD": X264,
    "AVX2 machine": {
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "OPENCV_CPU_DISABLE": "AVX512-SKX",
        "OPENCV_IPP": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
        "FFMPEG_CPU": f"{_AVX2}",
    },
    "plain": {**NUMPY, **OPENCV, **IPP, **BLAS, **GLIBC, **FFMPEG, **X264},
}

# --- what is computed ------------------------------------------------------------------------------------------------


def moving_texture(height: int, width: int, count: int = FRAMES) -> np.ndarray:
    """A clip of whole-number arithmetic: coloured texture that pans, a ramp, and a striped square that moves."""
    random = np.random.default_rng(11)
    coarse = random.integers(0, 256, (height // 4 + 16, width // 4 + 16, 3), dtype=np.int64)
    texture = coarse.repeat(4, axis=0).repeat(4, axis=1)
    for axis in (0, 1, 0, 1):
        texture = sum(np.roll(texture, shift, axis) for shift in range(-2, 3)) // 5
    y, x = np.mgrid[0:height, 0:width]
    side = min(height, width) // 3
    frames = np.empty((count, height, width, 3), np.uint8)
    for index in range(count):
        picture = texture[index : index + height, 2 * index : 2 * index + width].copy()
        picture[..., 0] += (x * 90 // width) - 45
        picture[..., 2] += (y * 120 // height) - 60
        picture += random.integers(-6, 7, picture.shape)
        top, left = height // 3 + 2 * index, width // 4 + 5 * index
        inside = (y >= top) & (y < top + side) & (x >= left) & (x < left + side)
        picture[inside] = np.where(((x - left) // 5 % 2 == 0)[..., None], (230, 40, 60), (250, 220, 30))[inside]
        frames[index] = np.clip(picture, 0, 255)
    return frames


Task = tuple[str, Callable[[], Any]]


def tasks(folder: Path, severities: list[int]) -> Iterator[Task]:
    """(name, function) of everything that is compared; a name begins with its kind."""
    clips = {path.stem.removeprefix("clip_"): np.load(path) for path in sorted(folder.glob("clip_*.npy"))}
    for label, clip in clips.items():
        donor = clip[::-1, ::-1].copy()
        for entry in registry.perturbations(kind="video"):
            for severity in severities:
                name = f"video {entry.key} {severity} {label}"
                yield name, lambda e=entry, s=severity, c=clip, d=donor: perturbed(c, e.key, s, d)
            if entry.realization is not None:
                yield f"draw {entry.key} {label}", lambda e=entry, c=clip: drawn(e, c)
        yield from analysis_tasks(label, clip)
        for name, profile in storage.PROFILES.items():
            yield f"storage {name} {label}", lambda p=profile, c=clip: stored(p, c)[0]
            yield f"storage bytes {name} {label}", lambda p=profile, c=clip: stored(p, c)[1]
    for style in procedural_styles.names():
        yield f"style {style}", lambda s=style: procedural_styles.image(s)
    for path in sorted(folder.glob("*.mp4")):
        yield f"decode {path.stem}", lambda p=path: np.stack([frame.image for frame in decoding.decode(Clip(p))])
    yield from text_tasks()


def perturbed(clip: np.ndarray, key: str, severity: int, donor: np.ndarray) -> np.ndarray:
    from perturbations.api import functions as api

    return api.perturb(clip, key, severity, seed=3, item_id="clip", fps=FPS, donors=[donor])


def drawn(entry: registry.Perturbation, clip: np.ndarray) -> np.ndarray:
    assert entry.realization is not None
    count, height, width, _ = clip.shape
    return flat(registry.resolve(entry.realization)(rng.generator(3, "", "clip", entry.key), count, height, width))


def flat(value: Any) -> np.ndarray:
    if isinstance(value, tuple):
        return np.concatenate([flat(part) for part in value])
    return np.asarray(value, np.float64).ravel()


def analysis_tasks(label: str, clip: np.ndarray) -> Iterator[Task]:
    pairs = [(clip[index - 1], clip[index]) for index in range(1, len(clip))]

    def motions() -> list[motion.FrameMotion]:
        return [motion.frame_motion(motion.optical_flow(*pair)) for pair in pairs]

    yield f"analysis motion mask {label}", lambda: np.stack([flow.mask for flow in motions()])
    yield f"analysis motion angle {label}", lambda: np.array([flow.angle for flow in motions()])
    held = ArrayClip(clip, "benchmark", label, FPS)

    def look(name: str) -> AnalysisRow:
        return guided.analysed_now(recipe.analysis(name, config.Backends(), recipe.Unstored()), held)

    yield f"analysis main object {label}", lambda: letters(look("main_object").result)
    yield f"analysis embedding {label}", lambda: np.array(look("embedding").vector)

    def distortions() -> np.ndarray:
        measured = quality.Distortion(structural=True)
        for before, after in pairs:
            measured.add(before, after)
        return np.array([measured.psnr_db, measured.ssim])

    yield f"quality {label}", distortions


def stored(profile: storage.Profile, clip: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rate = Fraction(25)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        frames = (Frame(frame, index, index) for index, frame in enumerate(clip))
        encoding.encode(frames, path, profile, Timing(1 / rate, rate))
        images = np.stack([frame.image for frame in decoding.decode(Clip(path))])
        return images, np.frombuffer(path.read_bytes(), np.uint8)


CAPTIONS = [
    "a man in a red shirt is playing the guitar while two children dance on the grass",
    "three women are cooking rice with vegetables in a small kitchen",
    "a brown dog runs quickly after a ball and brings it back to its owner",
]


def text_tasks() -> Iterator[Task]:
    from perturbations.api import functions as api

    def perturbed_text(key: str, severity: int) -> np.ndarray:
        results = [api.perturb_text(text, key, severity, seed=3, item_id=text[:9]) for text in CAPTIONS]
        return letters(json.dumps([[result.text, result.similarity] for result in results]))

    for entry in registry.perturbations(kind="text"):
        for severity in entry.severities[::2]:
            yield f"text {entry.key} {severity}", lambda e=entry, s=severity: perturbed_text(e.key, s)

    def similarity() -> np.ndarray:
        from perturbations.models import text_similarity

        vectors = text_similarity.minilm().embed(CAPTIONS)
        return vectors @ vectors.T

    yield "text similarity", similarity


def letters(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


# --- one process -----------------------------------------------------------------------------------------------------


def child(folder: Path, reference: Path, severities: list[int], only: list[str], keep: bool) -> dict[str, Any]:
    """Compute everything; write it to `reference` or compare it with what is there."""
    switch_off(folder)
    differences: dict[str, Any] = {}
    for name, make in tasks(folder, severities):
        if only and not any(word in name for word in only):
            continue
        path = reference / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.npy"
        try:
            array = np.ascontiguousarray(make())
        except BackendError:
            continue
        if keep:
            np.save(path, array)
            differences[name] = [0, array.size, 0.0]
        elif path.exists():
            differences[name] = compared(array, np.load(path))
    return differences


def compared(array: np.ndarray, expected: np.ndarray) -> list[Any]:
    """The number of values that differ, the number of values, and the largest difference.

    All values count as different where the shapes differ.
    """
    if array.shape != expected.shape:
        return [expected.size, expected.size, float("inf")]
    if array.tobytes() == expected.tobytes():
        return [0, array.size, 0.0]
    apart = np.abs(array.astype(np.float64) - expected.astype(np.float64))
    return [int(np.count_nonzero(array != expected)), array.size, float(apart.max())]


def switch_off(folder: Path) -> None:
    """FFmpeg and x264 take no environment variable: their switches are set in the process."""
    if "FFMPEG_CPU" in os.environ:
        flags = os.environ["FFMPEG_CPU"]
        wrapper = folder / f"ffmpeg_{flags}"
        if not wrapper.exists():
            temporary = folder / f"ffmpeg.{os.getpid()}"
            temporary.write_text(f'#!/bin/sh\nexec {shlex.quote(program.ffmpeg_program())} -cpuflags {flags} "$@"\n')
            temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR)
            temporary.rename(wrapper)
        program.ffmpeg_program = lambda: str(wrapper)
        lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
        for library in {line.split()[-1] for line in lines if "libavutil" in line}:
            ctypes.CDLL(library).av_force_cpu_flags(int(flags))
    if "PLAIN_X264" in os.environ:
        plain = codec.h264

        def without_asm(**parameters: Any) -> dict[str, Any]:
            arguments = plain(**parameters)
            return {**arguments, "x264-params": f"{arguments['x264-params']}:asm=0"}

        codec.h264 = without_asm
        for name, profile in storage.PROFILES.items():
            parameters = [profile.options.get("x264-params"), "asm=0"]
            options = {**profile.options, "x264-params": ":".join(text for text in parameters if text)}
            storage.PROFILES[name] = dataclasses.replace(profile, options=options)


# --- all of them -----------------------------------------------------------------------------------------------------


def prepare(folder: Path, videos: list[Path]) -> None:
    for height, width in ((240, 320), (117, 161)):
        np.save(folder / f"clip_{width}x{height}.npy", moving_texture(height, width))
    still = np.repeat(moving_texture(120, 160, 1), FRAMES, axis=0)
    np.save(folder / "clip_still.npy", still)
    for number, video in enumerate(videos):
        frames = [frame.image for frame, _ in zip(decoding.decode(Clip(video)), range(FRAMES), strict=False)]
        np.save(folder / f"clip_video{number}.npy", np.stack(frames))
    clip = moving_texture(120, 160)
    for name, options in {
        "h264_8bit": ["-c:v", "libx264", "-pix_fmt", "yuv420p"],
        "h264_10bit": ["-c:v", "libx264", "-pix_fmt", "yuv420p10le"],
        "h264_444": ["-c:v", "libx264", "-pix_fmt", "yuv444p"],
        "mpeg4": ["-c:v", "mpeg4", "-q:v", "4"],
    }.items():
        command = [program.ffmpeg_program(), "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "160x120"]
        command += ["-i", "pipe:0", *options, "-threads", "1", str(folder / f"{name}.mp4")]
        subprocess.run(command, input=clip.tobytes(), check=True)


def start(setting: dict[str, str], folder: Path, reference: Path, options: argparse.Namespace, keep: bool) -> Any:
    command = [sys.executable, __file__, "--child", str(folder), str(reference), "--severities"]
    command += [str(severity) for severity in options.severities]
    command += ["--only", *options.only] if options.only else []
    command += ["--write"] if keep else []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **setting}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="*", type=Path)
    parser.add_argument("--severities", nargs="+", type=int, default=[1, 3, 5])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="only names that hold one of these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        cv2.setNumThreads(1)
        print(json.dumps(child(*options.child, options.severities, options.only, options.write)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder, options.videos)
        reference = options.keep or options.against or folder / "reference"
        reference.mkdir(parents=True, exist_ok=True)
        if options.against is None:
            start({}, folder, reference, options, keep=True)
        names = ["again"] if options.against or options.keep else options.settings
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = pool.map(lambda name: start(SETTINGS[name], folder, reference, options, keep=False), names)
            report(dict(zip(names, runs, strict=True)))


def report(runs: dict[str, dict[str, list[Any]]]) -> None:
    kinds = sorted({name.split()[0] for differences in runs.values() for name in differences})
    print("| setting | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for setting, differences in runs.items():
        cells = []
        for kind in kinds:
            of_kind = [difference for name, difference in differences.items() if name.split()[0] == kind]
            cells.append(f"{sum(difference[0] > 0 for difference in of_kind)} of {len(of_kind)}")
        print(f"| {setting} | " + " | ".join(cells) + " |")
    print("\n| what differs | setting | values | of | at most by |\n|---|---|---|---|---|")
    for setting, differences in runs.items():
        for name, (count, size, apart) in differences.items():
            if count:
                print(f"| {name} | {setting} | {count:,} | {size:,} | {apart:.3g} |")


if __name__ == "__main__":
    main()
