"""Decoding gives what ffmpeg gives, and encoding stores what was given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from clips import (
    FRAMES,
    HEIGHT,
    MPEG4,
    RATE,
    TIMING,
    VP9,
    WIDTH,
    X264,
    X264_10,
    X264_444,
    X264_B,
    container_times,
    copied,
    decoded,
    ffmpeg,
    ffmpeg_frames,
    has_encoder,
    images,
    make,
    noise,
    of_two_sizes,
    timed,
    times,
    with_cover,
    with_longer_sound,
    written,
)
from hypothesis import given
from hypothesis import strategies as st
from looping import each

from perturbations.base import storage
from perturbations.base.errors import MediaError
from perturbations.media import decoding, encoding, pixels, probing, program, quality
from perturbations.media.clip import Frame, Image, MediaClip, Timing, uniform_indices

ODD = (37, 53)

# --- decoding --------------------------------------------------------------------------------------------------------

TOP_FIRST, BOTTOM_FIRST = "format=yuv420p,interlace=scan=tff", "format=yuv420p,interlace=scan=bff"
CODECS = {
    "h264.mp4": X264,
    "b-frames.mp4": X264_B,
    "4:2:2.mp4": ("-c:v", "libx264", "-pix_fmt", "yuv422p"),
    "full-range.mp4": (*X264, "-vf", "scale=out_range=full", "-color_range", "pc"),
    "bt709.mp4": (*X264, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709", "-color_primaries", "bt709"),
    "10-bit.mp4": X264_10,
    "10-bit-bt709.mp4": (*X264_10, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709"),
    "10-bit-full-range.mp4": (*X264_10, "-vf", "scale=out_range=full", "-color_range", "pc"),
    "10-bit-hevc.mp4": ("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le", "-x265-params", "log=0"),
    "h264.mkv": X264_B,
    "h264.mov": X264_B,
    "h264.flv": X264_B,
    "h264.ts": X264_B,
    "fragmented.mp4": (*X264_B, "-movflags", "frag_keyframe+empty_moov"),
    "mpeg4.avi": MPEG4,
    "mpeg4-b.avi": (*MPEG4, "-bf", "2"),
    "h264-b.avi": X264_B,  # no times for reordered frames: they seem to go back
    "mjpeg.avi": ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p"),
    "vp9.webm": VP9,
    "vp9-alpha.webm": (*VP9, "-pix_fmt", "yuva420p"),
    "vp8.webm": ("-c:v", "libvpx", "-deadline", "realtime", "-pix_fmt", "yuv420p"),
    "av1.mp4": ("-c:v", "libaom-av1", "-cpu-used", "8", "-pix_fmt", "yuv420p"),
    "mpeg2.mpg": ("-c:v", "mpeg2video", "-bf", "2"),
    "interlaced.mp4": (*X264, "-x264-params", "tff=1", "-vf", TOP_FIRST),
    "interlaced-bottom.mkv": (*X264, "-x264-params", "bff=1", "-vf", BOTTOM_FIRST),
    "interlaced-full-range-bt709.mp4": (
        *(*X264, "-x264-params", "tff=1", "-color_range", "pc", "-colorspace", "bt709"),
        *("-vf", f"scale=out_color_matrix=bt709:out_range=full,{TOP_FIRST}"),
    ),
    "10-bit-interlaced.mp4": (*X264_10, "-x264-params", "tff=1", "-vf", "interlace=scan=tff"),
    "wmv2.wmv": ("-c:v", "wmv2"),
    "theora.ogv": ("-c:v", "libtheora"),
    "mpeg2.mxf": ("-c:v", "mpeg2video"),
    "mpeg4.nut": MPEG4,
    "raw.y4m": ("-c:v", "wrapped_avframe", "-pix_fmt", "yuv420p"),
}
ODD_CODECS = {
    "4:4:4.mp4": X264_444,
    "10-bit-4:4:4.mp4": ("-c:v", "libx264", "-pix_fmt", "yuv444p10le"),
    "rgb.mp4": ("-c:v", "libx264rgb", "-pix_fmt", "rgb24"),
    "4:2:0.mkv": ("-c:v", "ffv1", "-pix_fmt", "yuv420p"),
    "10-bit.mkv": ("-c:v", "ffv1", "-pix_fmt", "yuv420p10le"),
    "grey.mkv": ("-c:v", "ffv1", "-pix_fmt", "gray"),
}


def made_or_skipped(path: Path, *output: str, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Path:
    if not has_encoder(output[1]):
        pytest.skip(f"this ffmpeg has no encoder {output[1]}")
    return make(path, *output, size=size)


def assert_as_ffmpeg_gives_them(path: Path, size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
    expected = ffmpeg_frames(path, size)
    frames = decoded(path)
    assert [frame.position for frame in frames] == list(range(len(expected)))
    for frame, image in zip(frames, expected, strict=True):
        assert frame.image.dtype == np.uint8
        assert frame.image.flags.c_contiguous
        assert np.array_equal(frame.image, image)
    ticks = [frame.pts for frame in frames]
    assert ticks[0] == 0
    assert ticks == sorted(set(ticks))
    info = probing.probe(path)
    assert (info.width, info.height) == size


@pytest.mark.parametrize("name", CODECS)
def test_frames_are_those_of_ffmpeg(name: str, tmp_path: Path) -> None:
    path = made_or_skipped(tmp_path / name, *CODECS[name])
    assert_as_ffmpeg_gives_them(path)
    if name != "theora.ogv":  # it leaves out frames that did not change
        assert len(decoded(path)) == FRAMES


def interlaced_mpeg2(path: Path) -> Path:
    picture = f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE},{BOTTOM_FIRST}"
    coded = ("-c:v", "mpeg2video", "-flags", "+ildct+ilme", "-q:v", "2", "-frames:v", "6")
    ffmpeg("-f", "lavfi", "-i", picture, *coded, f"file:{path}")
    return path


def partly_interlaced(path: Path) -> Path:
    first = make(path.with_name("first.h264"), *CODECS["interlaced.mp4"], frames=4)
    second = make(path.with_name("second.h264"), *X264, frames=4)
    path.write_bytes(first.read_bytes() + second.read_bytes() + first.read_bytes())
    return path


@pytest.mark.parametrize(
    ("make_clip", "name", "interlaced"),
    [
        (interlaced_mpeg2, "clip.mpg", [True] * 6),
        (partly_interlaced, "clip.h264", [True] * 4 + [False] * 4 + [True] * 4),
    ],
)
def test_interlaced_frames_are_those_of_ffmpeg(
    make_clip: Callable[[Path], Path], name: str, interlaced: list[bool], tmp_path: Path
) -> None:
    path = make_clip(tmp_path / name)
    with av.open(str(path)) as container:
        assert [frame.interlaced_frame for frame in container.decode(video=0)] == interlaced
    assert_as_ffmpeg_gives_them(path)


@pytest.mark.parametrize("name", ODD_CODECS)
def test_frames_of_odd_sizes_are_those_of_ffmpeg(name: str, tmp_path: Path) -> None:
    assert_as_ffmpeg_gives_them(made_or_skipped(tmp_path / name, *ODD_CODECS[name], size=ODD), ODD)


def test_one_frame_is_a_clip(tmp_path: Path) -> None:
    path = make(tmp_path / "one.mp4", frames=1)
    assert_as_ffmpeg_gives_them(path)
    assert len(decoded(path)) == 1


@each("mirrored", [(), ("-display_hflip:v:0",)])
@each("degrees", ["0", "90", "89.999", "180", "270"])
@each(("output", "size"), [(X264, (WIDTH, HEIGHT)), (X264_10, (WIDTH, HEIGHT)), (X264_444, ODD)])
def test_turned_clips_come_out_upright(
    output: tuple[str, ...], size: tuple[int, int], degrees: str, mirrored: tuple[str, ...], tmp_path: Path
) -> None:
    lying = make(tmp_path / "lying.mp4", *output, size=size, frames=2)
    path = copied(lying, tmp_path / "turned.mp4", inputs=("-display_rotation:v:0", degrees, *mirrored))
    assert_as_ffmpeg_gives_them(path, size if degrees in ("0", "180") else size[::-1])


def test_raw_dv_has_the_rate_of_its_frames(tmp_path: Path) -> None:
    """libav gives the rate of the clock, 60,000 ticks per second."""
    path = make(tmp_path / "a.dv", "-c:v", "dvvideo", "-pix_fmt", "yuv420p", frames=3, size=(720, 576))
    assert probing.probe(path).frame_rate == 25
    assert probing.is_constant_rate(path)
    assert times(path) == [Fraction(place, 25) for place in range(3)]


@pytest.mark.parametrize(("degrees", "aspect"), [(0, "16/15"), (180, "16/15"), (90, "15/16"), (270, "15/16")])
def test_the_rotation_and_the_shape_of_upright_pixels_are_reported(degrees: int, aspect: str, tmp_path: Path) -> None:
    lying = make(tmp_path / "lying.mp4", "-vf", "setsar=16/15", *X264, frames=1)
    path = copied(lying, tmp_path / "turned.mp4", inputs=("-display_rotation:v:0", str(degrees)))
    info = probing.probe(path)
    assert (info.rotation, info.sample_aspect) == (degrees, Fraction(aspect))


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_variable_times_are_the_containers(suffix: str, tmp_path: Path) -> None:
    ticks = [0, 10, 50, 60, 500, 501, 900]
    first = written(tmp_path / "first.mp4", noise(len(ticks)), ticks, Timing(Fraction(1, 1000), RATE))
    path = copied(first, tmp_path / f"vfr.{suffix}")
    assert_as_ffmpeg_gives_them(path)
    assert times(path) == container_times(path) == [Fraction(tick, 1000) for tick in ticks]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_late_start_is_time_zero(suffix: str, tmp_path: Path) -> None:
    path = copied(make(tmp_path / "a.mkv", *X264_B), tmp_path / f"late.{suffix}", inputs=("-itsoffset", "1.5"))
    assert times(path) == [index / RATE for index in range(FRAMES)]


def test_an_edit_list_hides_frames(tmp_path: Path) -> None:
    path = copied(make(tmp_path / "whole.mp4", *X264_B), tmp_path / "trimmed.mp4", inputs=("-ss", "0.3"))
    assert 0 < len(decoded(path)) < FRAMES
    assert_as_ffmpeg_gives_them(path)


@pytest.mark.parametrize("output", [MPEG4, (*MPEG4, "-bf", "2"), X264], ids=["plain", "b-frames", "h264"])
def test_an_avi_with_dropped_frames_is_sound(output: tuple[str, ...], tmp_path: Path) -> None:
    dropping = ("-vf", "select='not(between(n,3,7))'", "-fps_mode", "passthrough")
    path = make(tmp_path / "dropped.avi", *dropping, *output)
    assert_as_ffmpeg_gives_them(path)
    assert len(decoded(path)) == FRAMES


def test_a_longer_sound_does_not_make_a_picture_short(tmp_path: Path) -> None:
    for name in ("sound.mp4", "sound.mkv"):
        assert len(decoded(with_longer_sound(tmp_path / name))) == FRAMES


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_cover_picture_is_no_video(suffix: str, tmp_path: Path) -> None:
    path = with_cover(tmp_path / f"covered.{suffix}", make(tmp_path / "video.mp4"))
    assert len(decoded(path)) == FRAMES
    assert images(path).shape[1:] == (HEIGHT, WIDTH, 3)


def test_positions_pick_frames(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", *X264_B)
    whole = decoded(path)
    for wanted in ([0], [FRAMES - 1], [2, 3, 7], range(FRAMES)):
        some = decoded(path, only=set(wanted))
        assert [(frame.position, frame.pts) for frame in some] == [(index, whole[index].pts) for index in wanted]
        assert all(np.array_equal(frame.image, whole[frame.position].image) for frame in some)
    assert decoded(path, only={FRAMES, FRAMES + 5}) == []


# --- cuts ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip of as many frames."""
    return make(tmp_path_factory.mktemp("twelve") / "a.mp4")


OPEN_GOP = (*X264_B, "-x264-params", "open-gop=1:scenecut=0")
SEEKING = {
    "closed.mp4": X264_B,
    "open.mp4": OPEN_GOP,
    "no-edit-list.mp4": (*X264_B, "-use_editlist", "0"),
    "fragmented.mp4": (*X264_B, "-movflags", "frag_keyframe+empty_moov"),
    "open.mkv": OPEN_GOP,
    "b.flv": X264_B,
    "b.ts": X264_B,
    "b.mpg": ("-c:v", "mpeg2video", "-bf", "2", "-g", "6"),
    "plain.avi": (*MPEG4, "-g", "6"),
    "plain.wmv": ("-c:v", "wmv2", "-g", "6"),
    "plain.webm": (*VP9, "-g", "6"),
}


@each("name", SEEKING)
def test_a_cut_holds_exactly_the_frames_of_its_span(name: str, tmp_path: Path) -> None:
    path = make(tmp_path / name, *SEEKING[name], frames=20)
    whole = decoded(path)
    time_base = probing.probe(path).time_base
    seconds = [float(frame.pts * time_base) for frame in whole]
    assert len(whole) == 20
    for start in range(len(whole)):
        for end, shift in ((start + 1, 0.0), (start + 3, -0.01), (None, 0.0)):
            end_s = seconds[end] if end is not None and end < len(whole) else None
            part = decoded(path, start_s=seconds[start] + shift, end_s=end_s)
            expected = whole[start:end]
            assert [frame.pts for frame in part] == [frame.pts - expected[0].pts for frame in expected]
            assert [frame.position for frame in part] == list(range(len(expected)))
            for frame, same in zip(part, expected, strict=True):
                assert np.array_equal(frame.image, same.image)


@pytest.mark.parametrize(
    ("span", "first", "end"),
    [
        ({"start_s": 0.17, "end_s": 0.21}, 5, 6),  # between two frames: the second is the first
        ({"end_s": 0.2}, 0, 5),
        ({"start_s": 0.0, "end_s": 0.2}, 0, 5),
        ({"start_s": 0.0}, 0, FRAMES),
        ({"start_s": 0.4, "end_s": 99.0}, 10, FRAMES),  # an annotation may say more than there is
    ],
)
def test_a_cut_may_begin_and_end_anywhere(span: dict[str, float], first: int, end: int, twelve: Path) -> None:
    assert np.array_equal(images(twelve, **span), images(twelve)[first:end])


def test_a_cut_counts_from_the_first_frame_of_a_late_start(tmp_path: Path) -> None:
    first = make(tmp_path / "a.mp4", *X264_B)
    path = copied(first, tmp_path / "late.mkv", inputs=("-itsoffset", "1.5"))
    assert np.array_equal(images(path, start_s=0.24, end_s=0.4), images(first)[6:10])


def test_positions_in_a_cut_count_from_its_start_and_none_is_an_error(twelve: Path) -> None:
    assert np.array_equal(images(twelve, start_s=0.12, end_s=0.4, only={1, 4}), images(twelve)[[4, 7]])
    with pytest.raises(MediaError, match="no frame between 7 s and 9 s"):
        decoded(twelve, start_s=7.0, end_s=9.0)
    with pytest.raises(MediaError, match="no frame between 7 s and inf s"):
        decoded(twelve, start_s=7.0)


# --- sampling --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 64), st.integers(1, 100_000))
def test_uniform_indices_are_spread_over_the_clip(num_frames: int, total: int) -> None:
    indices = uniform_indices(num_frames, total)
    assert len(indices) == num_frames
    assert indices == sorted(indices)
    assert 0 <= indices[0] <= indices[-1] < total
    assert len(set(indices)) == min(num_frames, total)
    if num_frames <= total:
        gaps = np.diff([-indices[0] - 1, *indices, 2 * total - indices[-1] - 1])  # mirrored at both ends
        assert gaps.max() - gaps.min() <= 2


@pytest.mark.parametrize("total", [0, -3])
def test_a_clip_without_frames_has_no_indices(total: int) -> None:
    with pytest.raises(ValueError, match="at least one frame"):
        uniform_indices(12, total)


# --- encoding --------------------------------------------------------------------------------------------------------

VARIABLE = [0, 3, 4, 50, 51, 52, 300]
SIZES = [(48, 64), (53, 37), (16, 17), (2, 2)]


def encoded(path: Path, images: Image, profile: str, ticks: list[int] | None = None) -> str:
    return encoding.encode(timed(images, ticks), path, storage.PROFILES[profile], TIMING)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("frames", [1, 7])
def test_lossless_is_exact(frames: int, size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    clip = noise(frames, *size)
    assert encoded(path, clip, "lossless") == "rgb24"
    assert np.array_equal(images(path), clip)
    assert np.array_equal(ffmpeg_frames(path, size[::-1]), clip)


@pytest.mark.parametrize("profile", [name for name, held in storage.PROFILES.items() if held.pixel_bits is None])
def test_times_are_kept(profile: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    encoded(path, noise(len(VARIABLE)), profile, VARIABLE)
    assert times(path) == container_times(path) == [tick / RATE for tick in VARIABLE]


@pytest.mark.parametrize("rate", [Fraction(30000, 1001), Fraction(24), Fraction(15, 2), Fraction(1000)])
def test_frame_rates_are_kept(rate: Fraction, tmp_path: Path) -> None:
    path = written(tmp_path / "a.mp4", noise(5), timing=Timing(1 / rate, rate))
    assert times(path) == [index / rate for index in range(5)]
    assert probing.probe(path).frame_rate == rate


@pytest.mark.parametrize("size", SIZES[:-1])
def test_high_keeps_40_db_of_noise(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    clip = noise(7, *size)
    encoded(path, clip, "high")
    distortion = quality.Distortion(structural=False)
    for original, stored in zip(clip, images(path), strict=True):
        distortion.add(original, stored)
    assert 40 <= distortion.psnr_db < math.inf


@pytest.mark.parametrize(("size", "pix_fmt"), [((48, 64), "yuv420p"), ((53, 37), "yuv444p"), ((48, 37), "yuv444p")])
def test_compatible_is_what_players_play(size: tuple[int, int], pix_fmt: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    assert encoded(path, noise(7, *size), "compatible") == pix_fmt
    info = probing.probe(path)
    assert (info.codec, info.pix_fmt, info.width, info.height) == ("h264", pix_fmt, size[1], size[0])
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert (context.colorspace, context.color_range) == (5, 1)  # BT.601, limited


def test_compatible_keeps_colours(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    patches = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (12, 200, 99)]
    clip = np.stack([np.full((HEIGHT, WIDTH, 3), colour, np.uint8) for colour in patches])
    encoded(path, clip, "compatible")
    assert np.abs(images(path).astype(int) - clip).max() <= 6


@pytest.mark.parametrize("rate", [Fraction(25), Fraction(30000, 1001)])
@pytest.mark.parametrize("contrast", [0.1, 1.0])
def test_released_stores_as_opencv_does(rate: Fraction, contrast: float, tmp_path: Path) -> None:
    clip = (noise(30, 96, 128) * contrast).astype(np.uint8)
    theirs, ours = tmp_path / "theirs.mp4", tmp_path / "ours.mp4"
    writer = cv2.VideoWriter(str(theirs), cv2.VideoWriter.fourcc(*"mp4v"), float(rate), (128, 96))
    for image in clip:
        writer.write(cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    writer.release()
    timing = Timing(1 / rate, rate)
    encoding.encode(timed(clip, [0, *range(100, 129)]), ours, storage.PROFILES["released"], timing)
    # Bit by bit with the same libavcodec; the tolerance is for another.
    stored, expected = images(ours), images(theirs)
    assert abs(cv2.PSNR(stored, clip) - cv2.PSNR(expected, clip)) < 0.1
    assert cv2.PSNR(stored, expected) > 45
    assert cv2.PSNR(stored, clip) < 38
    assert probing.probe(ours).frame_rate == probing.probe(theirs).frame_rate
    assert [round(time * rate) for time in times(ours)] == list(range(30))


@pytest.mark.parametrize("size", SIZES)
def test_released_keeps_odd_sides_and_many_frames_per_second(size: tuple[int, int], tmp_path: Path) -> None:
    rate = Fraction(120_000, 1001)
    path = tmp_path / "a.mp4"
    encoding.encode(timed(noise(3, *size)), path, storage.PROFILES["released"], Timing(1 / rate, rate))
    assert images(path).shape == (3, *size, 3)


@pytest.mark.parametrize("profile", storage.PROFILES)
def test_encoding_again_gives_the_same_bytes_and_leaves_the_frames_alone(profile: str, tmp_path: Path) -> None:
    clip = noise(FRAMES)
    for name in ("one.mp4", "two.mp4"):
        encoded(tmp_path / name, clip, profile)
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "two.mp4").read_bytes()
    assert np.array_equal(clip, noise(FRAMES))


def test_no_frames_are_an_error_and_a_source_that_fails_is_the_reason_not_ffmpeg(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no frame to encode"):
        encoding.encode([], tmp_path / "a.mp4", storage.PROFILES["high"], TIMING)
    with pytest.raises(MediaError, match="ffmpeg failed"):
        by_ffmpeg(tmp_path / "a.mp4", [], **H264)
    frames = decoding.decode(MediaClip(of_two_sizes(tmp_path / "sizes.ts")))
    with pytest.raises(MediaError, match="the frame size changes"):
        by_ffmpeg(tmp_path / "a.mp4", frames, **H264)


# --- encoding with the ffmpeg program --------------------------------------------------------------------------------

H264 = {"vcodec": "libx264", "preset": "veryfast", "threads": 1, "fflags": "+bitexact", "flags:v": "+bitexact"}


def by_ffmpeg(path: Path, frames: Iterable[Frame], size: tuple[int, int] = (WIDTH, HEIGHT), **arguments: Any) -> Path:
    program.encode_with_ffmpeg(frames, path, TIMING, size, "rgb24", arguments)
    return path


@pytest.mark.parametrize(("fed", "stored"), [("rgb24", "yuv444p"), ("yuv420p", "yuv420p")])
def test_the_bitrate_is_real(fed: str, stored: str, tmp_path: Path) -> None:
    still = noise(1, HEIGHT, 2 * WIDTH)[0] // 4
    panned = np.stack([np.roll(still, index, axis=1)[:, :WIDTH] for index in range(100)]) + noise(100) // 8
    noisy = written(tmp_path / "noisy.mp4", panned)
    source = tmp_path / "source.mp4"
    ffmpeg("-i", str(noisy), *X264, "-qp", "4", str(source))
    for bitrate in (100_000, 400_000):
        path = tmp_path / f"{bitrate}.mp4"
        frames = decoding.decode(MediaClip(source))
        if fed == "yuv420p":
            to_planes = pixels.to_planes()
            frames = (frame._replace(image=to_planes(frame.image)) for frame in frames)
        timing = Timing(probing.probe(source).time_base, RATE)
        arguments = {**H264, "video_bitrate": bitrate, "pix_fmt": stored}
        program.encode_with_ffmpeg(frames, path, timing, (WIDTH, HEIGHT), fed, arguments)
        assert probing.video_bitrate(path) == pytest.approx(bitrate, rel=0.2)
        assert probing.probe(path).pix_fmt == stored
        assert len(decoded(path)) == 100


@pytest.mark.parametrize("size", [(48, 64), (53, 37)])
def test_ffmpeg_gets_the_very_frames(size: tuple[int, int], tmp_path: Path) -> None:
    clip = noise(5, *size)
    path = by_ffmpeg(tmp_path / "a.mp4", timed(clip), size[::-1], vcodec="libx264rgb", qp=0, preset="ultrafast")
    assert np.array_equal(images(path), clip)


def test_ffmpeg_keeps_times_and_gives_the_same_bytes_again(tmp_path: Path) -> None:
    arguments = {**H264, "video_bitrate": 100_000, "pix_fmt": "yuv444p"}
    one, two = (
        by_ffmpeg(tmp_path / name, timed(noise(len(VARIABLE)), VARIABLE), **arguments)
        for name in ("one.mp4", "two.mp4")
    )
    assert times(one) == [tick / RATE for tick in VARIABLE]
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("frames", [1, 200])
def test_ffmpegs_own_words_are_the_reason_and_always_the_same(frames: int, tmp_path: Path) -> None:
    reasons = set()
    for name in ("one.mp4", "two.mp4"):
        with pytest.raises(MediaError, match="Unknown encoder 'nonsense'") as caught:
            by_ffmpeg(tmp_path / name, timed(noise(frames)), vcodec="nonsense")
        reasons.add(str(caught.value))
    assert len(reasons) == 1
    assert "\n" not in reasons.pop()


# --- what containers say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "codec"), [("av1.mp4", "av1"), ("vp9-alpha.webm", "vp9"), ("mpeg2.mpg", "mpeg2video"), ("h264.ts", "h264")]
)
def test_probe_names_the_codec_and_not_its_decoder(name: str, codec: str, tmp_path: Path) -> None:
    assert probing.probe(made_or_skipped(tmp_path / name, *CODECS[name])).codec == codec


def test_probe_describes_a_clip_its_rate_and_its_bitrate(tmp_path: Path) -> None:
    info = probing.probe(make(tmp_path / "a.mp4", *X264_B))
    assert (info.codec, info.pix_fmt, info.width, info.height) == ("h264", "yuv420p", WIDTH, HEIGHT)
    assert (info.frame_rate, info.declared_frames) == (RATE, FRAMES)
    assert info.declared_duration_s == pytest.approx(FRAMES / RATE)
    assert not probing.is_constant_rate(written(tmp_path / "a.mp4", noise(len(VARIABLE)), VARIABLE))
    path = with_longer_sound(tmp_path / "a.mp4")
    with av.open(str(path)) as container:
        size = sum(packet.size for packet in container.demux(container.streams.video[0]))
    assert probing.video_bitrate(path) == pytest.approx(8 * size / (FRAMES / RATE))


@pytest.mark.parametrize("name", ["b.mp4", "b.mkv", "b.ts"])
def test_constant_rate_is_seen(name: str, tmp_path: Path) -> None:
    assert probing.is_constant_rate(make(tmp_path / name, *X264_B))


NAMES = [
    "with space.mp4",
    "quote'and\".mp4",
    "semi;$(colon).mp4",
    "new\nline.mp4",
    "\N{GRINNING FACE}.mp4",
    "-dash.mp4",
    "per%cent%05d.mp4",
    "concat:a|b.mp4",
    "http:x.mp4",
    "file:a.mp4",
    "pipe:0.mp4",
    "subfile,,start,0,end,0,,:x.mp4",
    "[brackets]*?.mp4",
    "x" * 251 + ".mp4",
    "not-\udcff-utf8.mp4",
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("plain") / "plain.mp4", frames=2)


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[1:20] for name in NAMES])
def test_any_name_is_only_a_name(name: str, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(plain.read_bytes())
    for path in (Path(name), tmp_path / name):
        assert len(decoded(path)) == 2
        assert probing.probe(path).width == WIDTH
        assert probing.is_constant_rate(path)
    Path(name).unlink()
    encoding.encode(timed(noise(1)), Path(name), storage.PROFILES["lossless"], TIMING)
    assert np.array_equal(images(tmp_path / name), noise(1))
    if "\udcff" in name:
        return  # ffmpeg-python does not take it
    Path(name).unlink()
    by_ffmpeg(Path(name), timed(noise(1)), **H264)
    assert len(decoded(tmp_path / name)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]
