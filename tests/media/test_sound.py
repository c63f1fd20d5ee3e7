"""The sound of stored clips: the source's packets beside the same frames at the same times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import clips
import numpy as np
import pytest
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.corpus.plan import tiers
from perturbations.manifest.rows import VideoRow
from perturbations.media import decoding, probing, sound
from perturbations.media.clip import MediaClip

pytestmark = pytest.mark.usefixtures("in_this_process")

VIDEO = tiers.stored_video("high")


def voiced(path: Path, codec: str = "aac", *output: str, seconds: float = 1.0, delay: float = 0.0) -> Path:
    """A second of picture with a tone of that many seconds."""
    inputs = ("-itsoffset", str(delay), "-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}")
    return clips.make(path, *clips.X264_B, "-c:a", codec, "-ar", "48000", *output, frames=25, inputs=inputs)


def packets_of(path: Path) -> list[bytes]:
    """The first audio stream's packets."""
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(audio=0) if packet.size]


def heard(path: Path, start_s: float = 0.0, end_s: float = 100.0) -> NDArray[np.float64]:
    """What is heard from a span's first frame to its last, as 48,000 values per second; 0 where there is no sound."""
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        origin = float((video.start_time or 0) * (video.time_base or 0))
        times = sorted(frame.time or 0.0 for frame in container.decode(video))
        shown = [time for time in times if start_s <= time - origin < end_s]
    rate = 48_000
    line = np.zeros(4 * rate)  # from a second before the first frame
    with av.open(str(path)) as container:
        resampler, end = av.AudioResampler("fltp", "mono", rate), -1
        for frame in container.decode(audio=0):
            begin = round(((frame.time or 0.0) - shown[0] + 1) * rate)
            begin = end if abs(begin - end) < 100 else begin  # samples follow each other, clocks are rounded
            for mono in resampler.resample(frame):
                end = begin + mono.samples
                line[begin:end] = mono.to_ndarray()[0]
    return line[rate : round((shown[-1] - shown[0] + 1) * rate)]


def lag_ms(late: NDArray[np.float64], early: NDArray[np.float64]) -> float:
    """How much later one sound is than another, by the peak of their cross-correlation."""
    size = 2 * len(late)
    spectrum = np.fft.rfft(late, size) * np.conj(np.fft.rfft(early, size))
    peak = int(np.argmax(np.fft.irfft(spectrum, size)))
    return (peak - size * (peak > size // 2)) / 48


def pair(source: Path, folder: Path, key: str = "mlvp/fog", **span: float) -> tuple[VideoRow, VideoRow]:
    """The row of a clip with sound and the one of the same clip without, whose frames must be the same."""
    row = clips.source_row(source, **span)
    copied, silent = (clips.made_row(key, VIDEO, row, folder / name, sound=name == "a") for name in "ab")
    assert silent.audio == sound.UNWANTED
    assert copied.recipe_id == silent.recipe_id
    for name in ("frames_sha256", "frame_count", "stored_frames", "bitrate_bps", "duration_s", "psnr_db", "ssim"):
        assert getattr(copied, name) == getattr(silent, name), name
    paths = [Path(row.path or "") for row in (copied, silent)]
    assert probing.probe(paths[0]) == probing.probe(paths[1])
    times = [[frame.pts for frame in decoding.decode(MediaClip(path))] for path in paths]
    assert times[0] == times[1]
    return copied, silent


@pytest.mark.parametrize("span", [{}, {"start_s": 0.21, "end_s": 0.93}], ids=["whole", "span"])
@pytest.mark.parametrize(
    ("codec", "extension"),
    [
        *(("aac", "mp4"), ("aac", "ts"), ("aac", "flv"), ("libmp3lame", "avi")),
        *(("ac3", "mkv"), ("libopus", "mkv"), ("flac", "mkv"), ("alac", "mov")),
    ],
)
def test_the_sound_is_in_time(codec: str, extension: str, span: dict[str, float], tmp_path: Path) -> None:
    noise = ("-f", "lavfi", "-i", "anoisesrc=seed=1:amplitude=0.3:duration=1:sample_rate=48000")
    video = clips.X264 if extension == "avi" else clips.X264_B  # AVI has no times for frames in another order
    source = clips.make(tmp_path / f"clip.{extension}", *video, "-c:a", codec, frames=25, inputs=noise)
    row, _ = pair(source, tmp_path, **span)
    stored = Path(row.path or "")
    assert row.audio == {"libmp3lame": "mp3", "libopus": "opus"}.get(codec, codec)
    header = 7 if extension == "ts" else 0  # of each packet, which MP4 has once
    assert set(packets_of(stored)) <= {data[header:] for data in packets_of(source)}
    expected, held = heard(source, **span), heard(stored)
    assert len(held) == len(expected)
    assert abs(lag_ms(held, expected)) <= 1
    for part in (slice(960), slice(-960, None)):  # nothing is missing at the edges
        assert np.std(held[part]) == pytest.approx(np.std(expected[part]), rel=0.2)
    assert clips.made_row("mlvp/fog", VIDEO, clips.source_row(source, **span), tmp_path / "c").sha256 == row.sha256


def test_a_clip_without_sound_says_why(tmp_path: Path) -> None:
    aac, plain = voiced(tmp_path / "clip.mp4"), clips.make(tmp_path / "silent.mp4")
    late = clips.copied(voiced(tmp_path / "l.mp4", delay=0.6), tmp_path / "late.mp4")
    for key, source, reason in (
        ("mlvp/fog", plain, "the source has no sound"),
        ("mlvp/fog", voiced(tmp_path / "pcm.avi", "pcm_s16le"), "pcm_s16le cannot be stored in MP4"),
        ("mlvp/fog", voiced(tmp_path / "ogg.mkv", "libvorbis"), "vorbis cannot be stored in MP4"),
        ("msrvtt_p/jumble", aac, "the perturbation changes times"),
    ):
        folder = tmp_path / f"{reason[:9]}{source.stem}"
        assert clips.made_row(key, VIDEO, clips.source_row(source), folder).audio == f"none: {reason}"
    for tier in (tiers.stored_frames(3), tiers.UNSTORED):
        assert clips.made_row("mlvp/fog", tier, clips.source_row(aac), tmp_path / tier["tier"]).audio is None
    span = clips.source_row(late, start_s=0.0, end_s=0.4)
    assert clips.made_row("mlvp/fog", VIDEO, span, tmp_path / "before").audio == "none: no sound in the clip's span"


def test_no_sound_makes_a_clip_fail(tmp_path: Path) -> None:
    two = voiced(tmp_path / "two.mkv", "aac", "-map", "0:v", "-map", "1:a", "-map", "1:a")
    sources = [voiced(tmp_path / f"{seconds}.mp4", seconds=seconds) for seconds in (0.3, 3)]
    sources += [voiced(tmp_path / f"{delay}.mkv", delay=delay) for delay in (-0.4, 0.4)]
    times = clips.written(tmp_path / "variable.mp4", clips.noise(6), [0, 1, 5, 6, 20, 21])
    variable = tmp_path / "variable.mkv"
    clips.ffmpeg("-i", str(times), "-i", str(sources[0]), "-map", "0:v", "-map", "1:a", "-c", "copy", str(variable))
    for source in (two, *sources, variable):
        row, _ = pair(source, tmp_path / f"of {source.name}")
        assert row.audio == "aac", source
        assert len([stream for stream in av.open(str(row.path)).streams if stream.type == "audio"]) == 1
    damaged = bytearray(sources[1].read_bytes())
    with av.open(str(sources[1])) as container:
        places = [(packet.pos, packet.size) for packet in container.demux(audio=0) if packet.size]
    for place, size in places[5:9]:
        damaged[place : place + size] = b"\xff" * size
    (tmp_path / "damaged.mp4").write_bytes(damaged)
    assert pair(tmp_path / "damaged.mp4", tmp_path / "d")[0].audio in ("aac", sound._NOT_COPIED)


@pytest.mark.parametrize(
    ("maker", "cell", "files"), [(voiced, "aac", 2), (clips.make, "none: the source has no sound", 1)]
)
def test_another_choice_makes_finished_clips_anew_or_gives_them_another_cell(
    maker: Callable[[Path], Path], cell: str, files: int, tmp_path: Path
) -> None:
    source = clips.source_row(maker(tmp_path / "clip.mp4"))
    rows = [clips.made_row("mlvp/fog", VIDEO, source, tmp_path / "c", sound=choice) for choice in (True, False, True)]
    assert [row.audio for row in rows] == [cell, sound.UNWANTED, cell]
    assert rows[0].sha256 == rows[2].sha256
    assert len({row.sha256 for row in rows}) == files
    assert len({row.recipe_id for row in rows}) == 1
    assert storage.sha256(Path(rows[2].path or "")) == rows[2].sha256
