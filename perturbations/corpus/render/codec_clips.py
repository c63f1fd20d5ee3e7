"""Clips that an encoder perturbs: its stream, or what a player shows of the stream when it arrives damaged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.base.records import digest
from perturbations.base.storage import output_errors
from perturbations.corpus.plan.recipe import VideoRecipe
from perturbations.corpus.render.clean_clips import scratch_file
from perturbations.corpus.render.frame_orders import frames_at, showing
from perturbations.corpus.render.planned_clip import PlannedClip, Seen, realizations
from perturbations.media import damaged_streams, decoding, encoding, pixels, probing
from perturbations.media.clean_clip import CleanClip, times_of
from perturbations.media.clip import Frame, MediaClip, even


def codec_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    """The plan of a clip whose frames are an encoder's, or what a player shows where its stream arrives damaged."""
    arguments = recipe.entry.encoding(recipe.params)
    drawn = realizations(recipe, source)

    def write_stream(path: Path, tick: Tick, seen: Seen | None) -> None:
        _write_stream(source.whole, path, arguments, tick, None if source.cut else seen)
        if (damage := recipe.entry.damage) is not None:
            with output_errors(path):
                path.write_bytes(damage(drawn(None), path.read_bytes(), **recipe.params))

    def frames(
        *, only: Collection[int] | None = None, tick: Tick = no_tick, seen: Seen | None = None
    ) -> Iterator[Frame]:
        whole = source.whole
        if (damage := arguments.get("bsf")) is not None:
            yield from at_clean_times(_received(source.clip.path, source, only, tick, damage=str(damage)), source)
            return
        name = digest([recipe.text, whole.sha256, whole.clip.start_s, whole.clip.end_s])
        with scratch_file(whole, name, lambda path: write_stream(path, tick, seen)) as path:
            if recipe.entry.damage is not None:
                yield from at_clean_times(_received(path, source, only, tick), source)
                return
            if source.cut is None:
                decoded, time_base = decoding.decode(MediaClip(path), only=only), probing.probe(path).time_base
                in_seconds = ((frame, frame.pts * time_base) for frame in ticking(decoded, tick))
                yield from _in_ticks(in_seconds, source.timing.time_base)
                return
            places = range(source.num_frames) if only is None else sorted(only)
            stream = replace(whole, clip=MediaClip(path), sha256=name)
            cut = frames_at(stream, [source.first + place for place in places], tick)
            in_clip = (frame._replace(position=frame.position - source.first) for frame in cut)
            yield from at_clean_times(in_clip, source)

    return PlannedClip(
        recipe=recipe,
        source=source,
        frames=frames,
        height=source.height,
        width=source.width,
        num_frames=source.num_frames,
        full_length=source.num_frames,
        write_stream=write_stream,
        stores_stream=recipe.entry.damage is None and "bsf" not in arguments and source.cut is None,
    )


def _write_stream(
    source: CleanClip, path: Path, wanted: Mapping[str, str | int | Fraction], tick: Tick, seen: Seen | None
) -> None:
    """Write the encoder's own output for the whole video; `wanted` are its arguments.

    The encoder gets decoded frames, whatever the file holds. So an array, or another file of the same frames, has the
    same result; except where a bitrate is a share of the file's bitrate.
    """
    arguments = {name: _of_file(value, source.clip.path) for name, value in wanted.items()}
    arguments["pix_fmt"] = pixels.storable_pix_fmt(str(arguments["pix_fmt"]), source.width, source.height)
    info = probing.probe(source.clip.path)
    arguments |= pixels.tagged_bt601(info.primaries, info.transfer)
    frames = showing(ticking(decoding.decode(source.clip), tick), seen)
    fed = "rgb24"
    if arguments["pix_fmt"] == "yuv420p":
        fed, to_planes = "yuv420p", pixels.to_planes()
        frames = (frame._replace(image=to_planes(frame.image)) for frame in frames)
    clock = source.timing
    if probing.is_constant_rate(source.clip.path) or arguments.get("fps_mode") == "cfr":
        # Frames are counted instead of ticks: the container's time base must not influence the rate control.
        clock = even(clock)
        frames = (frame._replace(pts=frame.position) for frame in frames)
    aspect = source.sample_aspect
    encoding.encode_with_ffmpeg(frames, path, clock, source.size, fed, arguments, sample_aspect=aspect)


def at_clean_times(frames: Iterable[Frame], source: CleanClip) -> Iterator[Frame]:
    """Frames whose `position` is a place in the clip, at the times of its clean frames."""
    times = times_of(source.whole)
    at_places = ((frame, times[source.first + frame.position] - times[source.first]) for frame in frames)
    yield from _in_ticks(at_places, source.timing.time_base)


def _in_ticks(frames: Iterable[tuple[Frame, float | Fraction]], time_base: Fraction) -> Iterator[Frame]:
    """Frames with their times in seconds, as ticks of a clock; no two frames get the same tick."""
    previous = -1
    for frame, seconds in frames:
        previous = max(previous + 1, round(seconds / time_base))
        yield frame._replace(pts=previous)


def _received(
    path: Path, source: CleanClip, only: Collection[int] | None, tick: Tick, *, damage: str | None = None
) -> Iterator[Frame]:
    """What a player shows of a damaged stream. With `damage`, the source's own stream is damaged while it is read."""
    whole = source.whole
    places = range(source.num_frames) if only is None else only
    wanted = {source.first + place for place in places}
    if damage is None:
        shown = damaged_streams.shown(path, whole.num_frames, whole.timing.frame_rate, only=wanted)
    else:
        shown = damaged_streams.shown_of_source(path, times_of(whole), damage, only=wanted)
    for frame in ticking(shown, tick):
        yield frame._replace(position=frame.position - source.first)


_LEAST_BITRATE = 1_000
"""Bits per second: x264 counts in thousands."""


def _of_file(value: str | int | Fraction, path: Path) -> str | int:
    """An encoder's argument. A share becomes the bitrate that is this share of the file's bitrate."""
    if not isinstance(value, Fraction):
        return value
    return max(_LEAST_BITRATE, int(value * probing.file_bitrate(path)))
