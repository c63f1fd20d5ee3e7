"""How many damaged videos pass for sound ones, by format.

    python benchmarks/fuzz_media.py [--seed 0] [--formats ts gif] [--keep FOLDER] [--list]

Makes one small clip per format, then mutates its bytes in seven ways with a seed, and decodes every mutant in a child
process of its own with limited memory and time. What can become of a mutant:

    refused   a `MediaError`: the item would be quarantined
    same      every frame of the source, bit for bit: nothing that shows was hit
    shorter   fewer frames than the source, and no error
    other     as many frames or more, with other pixels, and no error
    crash     any other exception, a signal, no memory left
    timeout   no end within the seconds allowed

`shorter` is what must not happen. `other` cannot be known where a format has no checksum. `--list` names both.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perturbations.base.errors import MediaError
from perturbations.media import decoding, probing, program
from perturbations.media.clip import Clip

FRAMES, RATE, SIZE = 48, 25, "160x120"
MEMORY_BYTES, SECONDS = 4 << 30, 30
KINDS = ("refused", "same", "shorter", "other", "crash", "timeout")

H264 = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "12", "-pix_fmt", "yuv420p")
VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "12", "-pix_fmt", "yuv420p")
SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:duration=2")


def _codec(name: str, *more: str) -> tuple[str, ...]:
    return ("-c:v", name, "-q:v", "4", "-g", "12", *more)


FORMATS: dict[str, tuple[str, ...]] = {
    "h264.mp4": (*H264, "-movflags", "+faststart", "-c:a", "aac"),
    "fragments.mp4": (*H264, "-movflags", "+frag_keyframe+empty_moov"),
    "mpeg4.mov": _codec("mpeg4"),
    "h264.mkv": (*H264, "-c:a", "aac"),
    "ffv1.mkv": ("-c:v", "ffv1", "-level", "3", "-g", "1"),
    "vp9.webm": VP9,
    "live.webm": (*VP9, "-live", "1"),
    "mpeg4.avi": _codec("mpeg4", "-c:a", "mp2"),
    "mjpeg.avi": _codec("mjpeg", "-pix_fmt", "yuvj420p"),
    "mpeg1.mpg": _codec("mpeg1video", "-c:a", "mp2"),
    "mpeg2.vob": _codec("mpeg2video"),
    "h264.ts": (*H264, "-c:a", "aac"),
    "mpeg2.ts": _codec("mpeg2video"),
    "flv1.flv": _codec("flv1"),
    "wmv2.wmv": _codec("wmv2", "-c:a", "wmav2"),
    "theora.ogv": ("-c:v", "libtheora", "-q:v", "6", "-g", "12"),
    "picture.gif": ("-c:v", "gif"),
    "h264.h264": H264,
}

Mutation = Callable[[random.Random, bytes], bytes]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(1, len(data))]


def _remove(rng: random.Random, data: bytes) -> bytes:
    length = rng.choice((1, 7, 188, 512, 2048, len(data) // 8))
    start = rng.randrange(len(data))
    return data[:start] + data[start + length :]


def _overwrite(rng: random.Random, data: bytes) -> bytes:
    length = rng.choice((4, 32, 256, 2048))
    start = rng.randrange(len(data))
    return (data[:start] + rng.randbytes(length) + data[start + length :])[: len(data)]


def _flip(rng: random.Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 16))):
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _header(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        changed[rng.randrange(min(len(data), 1024))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(changed)


def _zero_tail(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(1, len(data))
    return data[:start] + bytes(len(data) - start)


def _append(rng: random.Random, data: bytes) -> bytes:
    length = rng.choice((1, 100, 5000))
    return data + (bytes(length) if rng.random() < 0.5 else rng.randbytes(length))


MUTATIONS: dict[str, tuple[Mutation, int]] = {
    "cut": (_cut, 12),
    "removed": (_remove, 8),
    "overwritten": (_overwrite, 8),
    "flipped": (_flip, 6),
    "header": (_header, 6),
    "zero_tail": (_zero_tail, 4),
    "appended": (_append, 4),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one file."""

    kind: str
    text: str
    frames: tuple[bytes, ...]
    seconds: float
    memory_mib: float


def make(folder: Path, name: str) -> Path:
    """A clip in one of `FORMATS`."""
    path = folder / name
    output = FORMATS[name]
    sound = SOUND if "-c:a" in output else ()
    source = ("-f", "lavfi", "-i", f"testsrc2=size={SIZE}:rate={RATE},noise=alls=6:all_seed=1:allf=t")
    fixed = ("-frames:v", str(FRAMES), "-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact")
    command = [program.ffmpeg_program(), "-nostdin", "-loglevel", "error", "-y", *source, *sound, *output, *fixed]
    subprocess.run([*command, f"file:{path}"], check=True)
    return path


def _decoded(path: Path) -> tuple[str, str, tuple[bytes, ...]]:
    frames: list[bytes] = []
    try:
        probing.probe(path)
        for frame in decoding.decode(Clip(path)):
            frames.append(hashlib.sha256(frame.image.data).digest()[:8])
    except MediaError as error:
        return "refused", str(error), tuple(frames)
    except BaseException as error:
        return "crash", repr(error), tuple(frames)
    return "decoded", "", tuple(frames)


def run(path: Path) -> Outcome:
    """Decode a file in a child process that may be killed."""
    start = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        signal.alarm(SECONDS)
        message = pickle.dumps(_decoded(path))
        with os.fdopen(writer, "wb") as file:
            file.write(message)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        message = file.read()
    _, status, usage = os.wait4(child, 0)
    seconds, memory_mib = time.monotonic() - start, usage.ru_maxrss / 1024
    if not message:
        timeout = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        return Outcome("timeout" if timeout else "crash", f"wait status {status}", (), seconds, memory_mib)
    kind, text, frames = pickle.loads(message)
    return Outcome(kind, text, frames, seconds, memory_mib)


def judged(mutant: Outcome, source: Outcome) -> str:
    """Which of `KINDS` a mutant is."""
    if mutant.kind != "decoded":
        return mutant.kind
    if mutant.frames == source.frames:
        return "same"
    return "shorter" if len(mutant.frames) < len(source.frames) else "other"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--keep", type=Path, help="keep the mutants that pass with other frames in this folder")
    parser.add_argument("--list", action="store_true", help="name every mutant that passes with other frames")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    worst_memory, worst_seconds = (0.0, ""), (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.formats:
            whole = make(Path(folder), name)
            source = run(whole)
            if source.kind != "decoded" or len(source.frames) != FRAMES:
                sys.exit(f"{name}: the sound file gives {len(source.frames)} frames, {source.kind}: {source.text}")
            data = whole.read_bytes()
            for mutation, (change, times) in MUTATIONS.items():
                for index in range(times):
                    label = f"{mutation}-{index}-{name}"
                    path = Path(folder) / label
                    path.write_bytes(change(random.Random(f"{options.seed} {label}"), data))
                    mutant = run(path)
                    kind = judged(mutant, source)
                    counts[name][kind] += 1
                    worst_memory = max(worst_memory, (mutant.memory_mib, label))
                    worst_seconds = max(worst_seconds, (mutant.seconds, label))
                    if kind not in ("refused", "same"):
                        if options.list:
                            wrong = sum(a != b for a, b in zip(mutant.frames, source.frames, strict=False))
                            print(f"{kind} {label}: {len(mutant.frames)} frames, {wrong} differ {mutant.text}")
                        if options.keep:
                            options.keep.mkdir(parents=True, exist_ok=True)
                            path.rename(options.keep / label)
                    path.unlink(missing_ok=True)
    _print_table(counts)
    print(f"\nworst memory: {worst_memory[0]:.0f} MiB ({worst_memory[1]})")
    print(f"longest: {worst_seconds[0]:.2f} s ({worst_seconds[1]})")


def _print_table(counts: dict[str, Counter[str]]) -> None:
    print(f"| format | files | {' | '.join(KINDS)} |\n|---|{'---:|' * (len(KINDS) + 1)}")
    for name, of_format in (*counts.items(), ("all", sum(counts.values(), Counter()))):
        numbers = " | ".join(str(of_format[kind]) for kind in KINDS)
        print(f"| {name} | {of_format.total()} | {numbers} |")


if __name__ == "__main__":
    main()
