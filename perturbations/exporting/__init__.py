"""Code that the formats of `exports/` share: names of files, rows and their frames, captions and their order."""
