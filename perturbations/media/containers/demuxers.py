"""Which containers are read. Nothing else is: libav also opens pictures, playlists, and lists of other files.

`img%03d.png` is to libav a sequence of the neighbours, a playlist an order to open other files or addresses, whatever
their names end in. So the demuxers are named, and the only protocol is that of files. Standard library only.
"""

from __future__ import annotations

_DEMUXERS = (
    *("mov", "matroska", "avi", "mpeg", "mpegts", "mpegvideo", "asf", "flv", "ogg", "gif", "apng", "mxf", "nut"),
    *("yuv4mpegpipe", "dv", "ivf", "h264", "hevc", "m4v", "obu", "wtv", "rm"),
)

INPUT_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(_DEMUXERS)}
"""For `av.open` and for an input of the ffmpeg program."""

NOT_READ = "not a video: a picture, a text, a list of other files, or of a format that is not read"
"""The message about a file that none of these demuxers takes."""
