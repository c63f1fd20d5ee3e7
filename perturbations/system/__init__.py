"""Processes, files, limits and text: what talks to the operating system. Only `errors` is below this room."""
