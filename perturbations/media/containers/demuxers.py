"""The containers that are read. All others are refused: libav also opens pictures, playlists and lists of other files.

libav reads `img%03d.png` as a sequence of files in that folder, and a playlist makes it open other files or addresses;
a file's extension does not matter. So the demuxers are listed, and only files are opened. Standard library only.
"""

from __future__ import annotations

_DEMUXERS = (
    *("mov", "matroska", "avi", "mpeg", "mpegts", "mpegvideo", "asf", "flv", "ogg", "gif", "apng", "mxf", "nut"),
    *("yuv4mpegpipe", "dv", "ivf", "h264", "hevc", "m4v", "obu", "wtv", "rm"),
)

INPUT_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(_DEMUXERS)}
"""For `av.open` and for an input of the ffmpeg program."""

NOT_READ = "not a video: a picture, a text, a list of other files, or of a format that is not read"
"""The message about a file that none of these demuxers reads."""
