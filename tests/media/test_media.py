"""Decoding gives what ffmpeg gives: whole clips, cuts and samples; and what containers say."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from clips import (
    FRAMES,
    HEIGHT,
    MPEG4,
    RATE,
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
    images,
    make,
    noise,
    times,
    with_cover,
    with_longer_sound,
    written,
)
from hypothesis import given
from hypothesis import strategies as st
from looping import each
from media_files import BOTTOM_FIRST, CODECS, ODD, ODD_CODECS, VARIABLE

from perturbations.base.errors import MediaError
from perturbations.media import probing
from perturbations.media.clip import Timing, uniform_indices

# --- decoding --------------------------------------------------------------------------------------------------------


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
    path = make(tmp_path / name, *CODECS[name])
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
    assert_as_ffmpeg_gives_them(make(tmp_path / name, *ODD_CODECS[name], size=ODD), ODD)


SUBSAMPLED = {
    "mpeg4.avi": ("-c:v", "mpeg4", "-q:v", "3"),
    "mpeg2.mpg": ("-c:v", "mpeg2video", "-q:v", "3"),
    "vp9.webm": (*VP9, "-chroma_sample_location", "left"),
    "mjpeg.avi": ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p"),
    "left.mkv": ("-c:v", "ffv1", "-level", "1", "-chroma_sample_location", "left"),
    "top-left.mkv": ("-c:v", "ffv1", "-level", "1", "-chroma_sample_location", "topleft"),
    "4:1:1.mkv": ("-c:v", "ffv1", "-level", "1", "-pix_fmt", "yuv411p", "-chroma_sample_location", "left"),
    "4:1:0.mkv": ("-c:v", "ffv1", "-level", "1", "-pix_fmt", "yuv410p", "-chroma_sample_location", "left"),
    "4:2:2.mkv": ("-c:v", "ffv1", "-level", "1", "-pix_fmt", "yuv422p", "-chroma_sample_location", "topleft"),
    "alpha.mkv": ("-c:v", "ffv1", "-level", "1", "-pix_fmt", "yuva420p", "-chroma_sample_location", "left"),
}
"""Video whose chroma has fewer samples than its luma, with a tag that says where they lie."""
SIZES = [*((side, side * 7 % 20 + 1) for side in range(1, 21)), (100, 77), (101, 76), (161, 91)]


@pytest.mark.parametrize("name", SUBSAMPLED)
def test_chroma_lies_where_ffmpeg_has_it(name: str, tmp_path: Path) -> None:
    """At every size. One process of ffmpeg makes them all, and one decodes them."""
    paths = [tmp_path / f"{width}x{height}-{name}" for width, height in SIZES]
    output = SUBSAMPLED[name] if "-pix_fmt" in SUBSAMPLED[name] else (*SUBSAMPLED[name], "-pix_fmt", "yuv420p")
    outputs, raw = [], []
    for number, (path, (width, height)) in enumerate(zip(paths, SIZES, strict=True)):
        outputs += ["-vf", f"scale={width}:{height}", "-frames:v", "2", "-threads", "1", *output, f"file:{path}"]
        raw += ["-map", f"{number}:v", "-fps_mode", "passthrough", "-pix_fmt", "rgb24", "-f", "rawvideo"]
        raw += [f"file:{path}.rgb"]
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=161x91:rate=25,format=rgb24", *outputs)
    ffmpeg(*[word for path in paths for word in ("-i", f"file:{path}")], *raw)
    for path, (width, height) in zip(paths, SIZES, strict=True):
        expected = np.fromfile(f"{path}.rgb", np.uint8).reshape(-1, height, width, 3)
        assert len(expected) == 2
        assert np.array_equal(images(path), expected), path.name


@each(
    "second",
    [
        (*X264, "-vf", "scale=out_range=full", "-color_range", "pc"),
        (*X264, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709"),
        ("-c:v", "libx264", "-pix_fmt", "yuv422p"),
    ],
)
def test_colours_that_change_within_a_stream_are_those_of_ffmpeg(second: tuple[str, ...], tmp_path: Path) -> None:
    parts = [make(tmp_path / "a.h264", frames=3), make(tmp_path / "b.h264", *second, frames=3)]
    path = tmp_path / "both.h264"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    assert_as_ffmpeg_gives_them(path)


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


def dropping(folder: Path, *output: str) -> Path:
    frames = ("-vf", "select='not(between(n,3,7))'", "-fps_mode", "passthrough")
    return make(folder / "dropped.avi", *frames, *output)


def sound_first(folder: Path, suffix: str) -> Path:
    inputs = ("-f", "lavfi", "-i", "sine=frequency=440:duration=0.5")
    return make(folder / f"first.{suffix}", "-map", "1", "-map", "0", *X264_B, inputs=inputs)


def trimmed(folder: Path) -> Path:
    return copied(make(folder / "whole.mp4", *X264_B), folder / "trimmed.mp4", inputs=("-ss", "0.3"))


def reserved_colours(folder: Path) -> Path:
    numbers = ("-bsf:v", "h264_metadata=transfer_characteristics=3:colour_primaries=3")
    return copied(make(folder / "a.mp4"), folder / "reserved.mp4", *numbers)


def covered(folder: Path, suffix: str) -> Path:
    return with_cover(folder / f"covered.{suffix}", make(folder / "video.mp4"))


SOUND: dict[str, tuple[Callable[[Path], Path], int]] = {
    "one frame": (lambda folder: make(folder / "one.mp4", frames=1), 1),
    "reserved numbers of colours": (reserved_colours, FRAMES),
    "an edit list that hides frames": (trimmed, 4),
    "dropped frames": (lambda folder: dropping(folder, *MPEG4), FRAMES),
    "dropped frames, B-frames": (lambda folder: dropping(folder, *MPEG4, "-bf", "2"), FRAMES),
    "dropped frames, H.264": (lambda folder: dropping(folder, *X264), FRAMES),
    "a longer sound.mp4": (lambda folder: with_longer_sound(folder / "sound.mp4"), FRAMES),
    "a longer sound.mkv": (lambda folder: with_longer_sound(folder / "sound.mkv"), FRAMES),
    "sound first.mp4": (lambda folder: sound_first(folder, "mp4"), FRAMES),
    "sound first.mkv": (lambda folder: sound_first(folder, "mkv"), FRAMES),
    "sound first.avi": (lambda folder: sound_first(folder, "avi"), FRAMES),
    "a cover picture.mp4": (lambda folder: covered(folder, "mp4"), FRAMES),
    "a cover picture.mkv": (lambda folder: covered(folder, "mkv"), FRAMES),
}


@pytest.mark.parametrize("name", SOUND)
def test_unusual_files_are_read_whole(name: str, tmp_path: Path) -> None:
    maker, frames = SOUND[name]
    path = maker(tmp_path)
    assert_as_ffmpeg_gives_them(path)
    assert len(decoded(path)) == frames


# --- what a container says of its pictures ---------------------------------------------------------------------------


def with_clean_aperture(source: Path, path: Path, *numbers: int, track: int = 0) -> Path:
    """A copy of an MP4 with a `clap` box of eight numbers in a track's sample entry. The file's index is at its end."""
    data = bytearray(source.read_bytes())
    box = struct.pack(">I4s8i", 40, b"clap", *numbers)
    parents, place = [], 0
    for name, nth in ((b"moov", 0), (b"trak", track), (b"mdia", 0), (b"minf", 0), (b"stbl", 0), (b"stsd", 0)):
        for _ in range(nth + 1):
            place = data.index(name, place) + 4
        parents.append(place - 8)
    entry = place + 8  # behind the version, the flags and the number of entries
    end = entry + int.from_bytes(data[entry : entry + 4], "big")
    for parent in (*parents, entry):
        data[parent : parent + 4] = (int.from_bytes(data[parent : parent + 4], "big") + len(box)).to_bytes(4, "big")
    path.write_bytes(data[:end] + box + data[end:])
    return path


APERTURES = {
    "middle": ((40, 1, 30, 1, 0, 1, 0, 1), (40, 30)),
    "odd": ((41, 1, 31, 1, 0, 1, 0, 1), (40, 30)),  # whole samples of chroma
    "shifted": ((40, 1, 30, 1, -5, 1, 3, 1), (40, 30)),
    "halves": ((81, 2, 61, 2, 1, 2, -1, 2), (40, 30)),
    "all": ((64, 1, 48, 1, 0, 1, 0, 1), (64, 48)),
    "larger": ((100, 1, 44, 1, 0, 1, 0, 1), (64, 48)),  # no valid ones hide nothing
    "beyond": ((60, 1, 44, 1, 9, 1, 0, 1), (64, 48)),
    "no number": ((40, 0, 30, 1, 0, 1, 0, 1), (64, 48)),
}


@pytest.mark.parametrize("name", APERTURES)
def test_what_a_clean_aperture_hides_is_not_there(name: str, tmp_path: Path) -> None:
    numbers, size = APERTURES[name]
    path = with_clean_aperture(make(tmp_path / "a.mp4", frames=2), tmp_path / "b.mp4", *numbers)
    assert_as_ffmpeg_gives_them(path, size)
    assert_as_ffmpeg_gives_them(copied(path, tmp_path / "b.mkv"), size)  # ffmpeg copies it


def test_cropping_of_turned_pictures_and_of_a_later_track(tmp_path: Path) -> None:
    numbers, size = APERTURES["shifted"]
    flat = make(tmp_path / "flat.mp4", frames=2)
    lying = copied(flat, tmp_path / "lying.mp4", inputs=("-display_rotation:v:0", "90"))
    assert_as_ffmpeg_gives_them(with_clean_aperture(lying, tmp_path / "turned.mp4", *numbers), size[::-1])
    after_sound = ("-map", "1", "-map", "0", *X264, "-c:a", "aac")
    sine = ("-f", "lavfi", "-i", "sine=duration=0.08")
    with_sound = make(tmp_path / "sound.mp4", *after_sound, frames=2, inputs=sine)
    path = with_clean_aperture(with_sound, tmp_path / "second.mp4", *numbers, track=1)
    assert_as_ffmpeg_gives_them(path, size)
    assert_as_ffmpeg_gives_them(copied(path, tmp_path / "second.mkv", "-map", "0"), size)


@each("numbers", [(1, 1, 1, 1, 0, 1, 0, 1), (60, 1, 44, 1, -9, 1, 0, 1)])
def test_a_container_that_shows_no_part_of_the_picture_is_refused(numbers: tuple[int, ...], tmp_path: Path) -> None:
    path = with_clean_aperture(make(tmp_path / "a.mp4", frames=1), tmp_path / "b.mp4", *numbers)
    for read in (decoded, probing.probe):
        with pytest.raises(MediaError, match="shows none of the picture"):
            read(path)


DEFAULT = {"no": ("0", "0"), "first": ("default", "0"), "second": ("0", "default"), "both": ("default", "default")}


@pytest.mark.parametrize("default", DEFAULT)
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_of_several_video_streams_the_one_of_ffmpeg_is_taken(suffix: str, default: str, tmp_path: Path) -> None:
    first, second = (make(tmp_path / f"{side}.mp4", size=(side, side), frames=2) for side in (48, 64))
    dispositions = [f"-disposition:v:{place}" for place in (0, 1)]
    chosen = [word for pair in zip(dispositions, DEFAULT[default], strict=True) for word in pair]
    path = tmp_path / f"two.{suffix}"
    ffmpeg("-i", str(first), "-i", str(second), "-map", "0", "-map", "1", "-c", "copy", *chosen, f"file:{path}")
    raw = ffmpeg("-i", f"file:{path}", "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    assert images(path).tobytes() == raw
    info = probing.probe(path)
    assert 2 * info.width * info.height * 3 == len(raw)
    assert info.losses == ("further video tracks",)


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


# --- what containers say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "codec"), [("av1.mp4", "av1"), ("vp9-alpha.webm", "vp9"), ("mpeg2.mpg", "mpeg2video"), ("h264.ts", "h264")]
)
def test_probe_names_the_codec_and_not_its_decoder(name: str, codec: str, tmp_path: Path) -> None:
    assert probing.probe(make(tmp_path / name, *CODECS[name])).codec == codec


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
