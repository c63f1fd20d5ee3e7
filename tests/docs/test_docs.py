"""The documentation's links lead somewhere, and what follows from the code is up to date."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import coverage_table
import generate
import pytest
import rooms
from copies import ROOT
from looping import each
from snakemake.cli import get_argument_parser

import perturbations
from perturbations import retrieval, tta
from perturbations.base import errors
from perturbations.cli.main import parser
from perturbations.evaluation.published import protocols
from perturbations.suites import published_cells, suite_registry

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "manifests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
snakemake_parser = cache(get_argument_parser)


def has_words(words: list[str]) -> None:
    """The words after `perturb`: its commands and their options; arguments may be missing."""
    if words[:1] == ["rule"]:  # what rules call
        assert any(" ".join(words) in path.read_text(encoding="utf-8") for path in ROOT.glob("workflow/rules/*.smk"))
        return
    group: argparse.ArgumentParser = parser()
    rest = iter(words)
    for word in rest:
        choices = [action.choices for action in group._actions if action.choices and not action.option_strings]
        if word.startswith("-"):
            assert word in group._option_string_actions, word
            if isinstance(choices[0] if choices else None, dict) and group._option_string_actions[word].nargs is None:
                next(rest, None)  # the value of an option before the command
        elif choices and isinstance(choices[0], dict):
            assert word in choices[0], word
            group = choices[0][word]
        elif choices:
            assert word in choices[0], word


def test_links_lead_somewhere_in_the_checkout() -> None:
    """Where README sends its readers. The site has more: its links are checked when it is built."""
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            if ":" in name or (name in MADE and page.parent == ROOT / "docs"):
                continue
            file = page.parent / name if name else page
            assert file.exists(), (page, target)
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M) if anchor else []
            anchors = [re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
            assert not anchor or anchor in anchors or f'id="{anchor}"' in file.read_text(encoding="utf-8"), (
                page,
                target,
            )


MADE = ("examples/corpus.html", "examples/report.html")
"""Of the site alone: `docs/examples.py` makes them."""


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "how-to").glob("add-a*.md")), ids=lambda page: page.stem)
def test_an_example_passes_the_linter(page: Path) -> None:
    for text in re.findall(r'^```python\n(""".*?)^```', page.read_text(encoding="utf-8"), re.M | re.S):
        check = [sys.executable, "-m", "ruff", "check", "--stdin-filename", ROOT / "perturbations" / "example.py", "-"]
        done = subprocess.run(check, cwd=ROOT, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def commands(program: str = "perturb ") -> list[str]:
    """Every command of a program in a block of a page."""
    blocks = [
        text.replace("\\\n", " ")
        for page in PAGES
        for language, text in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.M | re.S)
        if language in ("", "sh")
    ]
    parts = [part.strip() for block in blocks for line in block.splitlines() for part in line.split("&&")]
    return sorted({part for part in parts if part.removeprefix(".venv/bin/").startswith(program)})


@each("command", commands())
def test_a_command_is_one_that_perturb_takes(command: str) -> None:
    words = shlex.split(command.partition(" > ")[0], comments=True)[1:]
    try:
        parser().parse_args(words)
    except SystemExit as end:
        assert end.code == 0, command


INLINE = [*PAGES, ROOT / "config.yaml"]


def inline() -> list[str]:
    """What stands in a line of a page as code: commands, and options without theirs."""
    texts = [re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S) for page in INLINE]
    spans = {" ".join(span.split()) for text in texts for span in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", text)}
    return sorted(span for span in spans if re.match(r"(perturb|snakemake|python|pytest|sh) |--\w", span))


@each("span", inline())
def test_a_command_or_option_in_a_line_is_one(span: str) -> None:
    program, *words = shlex.split(span)
    if program == "perturb":
        has_words([word for word in words if word not in ("...", "COMMAND") and word[0] != "{"])
    elif program.startswith("--") or (program == "snakemake" and len(words) == 1 and words[0][0] == "-"):
        assert {program.partition("=")[0], *words} & options(), span
    elif program == "snakemake":
        is_planned(words)
    else:
        files = [word for word in words if re.search(r"\.(py|sh)$", word)]
        assert all(list(ROOT.glob(file)) for file in files), span


@cache
def options() -> set[str]:
    """The options of all programs that pages name without their command."""
    others = {"--build-arg", "--slurm", *("--noise_types", "--preprocess_dir", "--include_path", "--videos_dir")}
    others |= {"--noised_text_dir", "--noised_video_dir"}  # of programs that read exports
    parsers, known = [parser(), snakemake_parser()], others
    for group in parsers:
        for action in group._actions:
            known |= {*action.option_strings}
            parsers += (action.choices or {}).values() if isinstance(action, argparse._SubParsersAction) else []
    return known


def is_planned(words: list[str]) -> None:
    """Snakemake takes the words, and its targets are those of a suite or an evaluation."""
    targets = snakemake_parser().parse_args(words).targets
    kinds = "|".join([*suite_registry.suites(), "tta", "evaluate", "composed", "perturbed", "mine", "lamps"])
    known = re.compile(
        rf"(\w+_)?({kinds})_\S+|report|egocvr|msrvtt_p|youcook2_p|all|check_model|manifests/\S+|work/\S+|TARGET"
    )
    assert [target for target in targets if not known.fullmatch(target)] == []


@each("words", [part.partition(" ")[2] for part in commands("snakemake ")])
def test_a_call_of_snakemake_is_one(words: str) -> None:
    is_planned(shlex.split(words.partition(" > ")[0], comments=True))


# --- what follows from the code --------------------------------------------------------------------------------------


def test_each_line_of_the_papers_names_a_way_that_there_is_or_a_reason() -> None:
    """Every table of results once, and yes where results or features reach one of its cells."""
    lines = [*coverage_table.lines()]
    assert {line.answer for line in lines} == {"yes", "no"}
    assert all(line.how and line.place for line in lines)
    every = [(line, number) for line in lines if line.what.endswith(" cells") for number in line.place[5:].split(", ")]
    answers = {(line.paper, number): line.answer for line, number in every}
    assert len(answers) == len(every)
    reached: dict[tuple[str, str], bool] = {}
    for cell in published_cells.cells():
        own = protocols.papers()[cell.paper]
        reached.setdefault((own["title"], cell.table), False)
        reached[own["title"], cell.table] |= cell.status in ("shown", "needs features")
    not_read = {
        (own["title"], number): "no" for own in protocols.papers().values() for number in own.get("not_read", ())
    }
    assert answers == not_read | {place: "yes" if is_reached else "no" for place, is_reached in reached.items()}
    words = " ".join(line.how for line in lines)
    commands = (ROOT / "docs/reference/cli.md").read_text()
    assert all(f"perturb {name}" in commands for name in re.findall(r"`perturb ([a-z]+)", words))
    assert all(f"`{name}" in commands for name in re.findall(r"(?<=[ `])--[a-z-]+", words))
    known = {name.replace(number, "<number>") for name, own in protocols.protocols().items() for number in own.tables}
    named = re.findall(r"\b(?:protocol:? )([a-z_]+table_[\w<>]+)", words)
    assert {*named} <= {*known, *protocols.protocols()}
    configuration = (ROOT / "docs/reference/configuration.md").read_text()
    keys = re.findall(r"`(?:backends|evaluation|composed|datasets)(?:\.\S+?)?\.([a-z_]+)[`:]", words)
    assert all(f"`{key}`" in configuration for key in keys)


def test_what_follows_from_the_code_is_up_to_date_and_else_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a change: `python docs/generate.py`. A suite that README lacks, and another version of one measured."""
    assert [str(path.relative_to(ROOT)) for path in generate.stale()] == []
    assert (generate.undocumented_keys(), generate.outdated()) == ([], [])
    known, block = suite_registry.suites(), generate.of_suites()
    monkeypatch.setattr(
        suite_registry, "suites", lambda: {**known, "new": dataclasses.replace(known["mlvp"], reference="Nobody")}
    )
    assert generate.of_suites() != block
    row, *others = generate._measured()
    monkeypatch.setattr(generate, "_measured", lambda: [{**row, "version": "0"}, *others])
    monkeypatch.setattr(generate, "stale", list)
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    assert f"other versions of msrvtt_p/{row['perturbation']};" in capsys.readouterr().out


def test_rooms_stand_above_what_they_import() -> None:
    assert all(map(rooms.summary, rooms.imports()))
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert rooms.arrows(graph) == [("a", "b"), ("b", "c")]
    assert rooms.floors(graph) == {"c": 0, "b": 1, "a": 2}


# --- the site --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning, such as a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("site")
    lines = [line.split() for line in (ROOT / ".ci/run").read_text().splitlines()]
    (line,) = (line for line in lines if line[:2] == ["mkdocs", "build"])
    assert line[2:] == ["--strict"], "--quiet keeps MkDocs from counting warnings"
    command = [sys.executable, "-m", *line, "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_are_readable_without_a_network(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'(?:<script[^>]* src|<link[^>]* href|<img[^>]* src)="((?:https?:)?//[^"]+)"', text)
        assert not loaded, page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_public_name_is_in_the_reference_and_every_suite_in_the_menu(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    public = [name for name in perturbations.__all__ if not name.startswith("_")]
    public += [*retrieval.__all__, *tta.__all__]
    public += [name for name, value in vars(errors).items() if isinstance(value, type) and name.endswith("Error")]
    assert [name for name in public if not re.search(rf'id="perturbations[.\w]*\.{name}"', text)] == []
    text = (site / "index.html").read_text(encoding="utf-8")
    assert [name for name in suite_registry.suites() if f'href="catalogue/{name}.html"' not in text] == []


def test_the_menu_leads_to_examples_of_both_pages(site: Path) -> None:
    menu = (site / "index.html").read_text(encoding="utf-8")
    pages = {name: (site / "examples" / f"{name}.html").read_text(encoding="utf-8") for name in ("corpus", "report")}
    assert all(f'href="examples/{name}.html"' in menu for name in pages)
    assert pages["corpus"].count('<article class="card"') == 7
    assert "R@1 82.1 % clean, 62.9 % under mlvp" in pages["report"]
    tables = re.findall(r'href="(report\.tables/[^"]+)"', pages["report"])
    assert tables
    assert all((site / "examples" / unquote(name)).is_file() for name in tables)


# --- Files that pages and docstrings name are there ---


FILE = re.compile(
    r"(?<![\w/.<-])((?:perturbations|benchmarks|workflow|docs|envs|tests)/[\w./-]+\.(?:py|md|csv|yaml|smk|json|sh))"
)
TEXTS = sorted(
    path
    for pattern in (
        "docs/**/*.md",
        "*.md",
        "manifests/README.md",
        "perturbations/**/*.py",
        "workflow/**/*.smk",
        "benchmarks/*.py",
    )
    for path in ROOT.glob(pattern)
    # What a newcomer writes is not there; a changelog tells of what was.
    if "how-to/add-" not in str(path) and path.name != "CHANGELOG.md"
)


def test_named_files_are_there() -> None:
    named = {(path, name) for path in TEXTS for name in FILE.findall(path.read_text(encoding="utf-8"))}
    assert len(TEXTS) > 300
    assert {(str(path), name) for path, name in named if not (ROOT / name).exists()} == set()
