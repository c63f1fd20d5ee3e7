"""Pages in a browser: what a wrapper around them tells in its title."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import needs

_QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


def browsed(folder: Path, wrapper: str, budget_ms: int, scheme: str = "light") -> Any:
    """The JSON in the title of a page that is written to `folder`, after some time; skips without a browser."""
    (folder / "wrapper.html").write_text(wrapper)
    command = [needs.browser(), "--headless", "--no-sandbox", "--disable-gpu", *_QUIET]
    command += [f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files"]
    command += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
    command += [f"--virtual-time-budget={budget_ms}", "--dump-dom", (folder / "wrapper.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    return json.loads(html.unescape(title.group(1)))
