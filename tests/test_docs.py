"""The documentation's links lead somewhere, and what follows from the code is up to date."""

from __future__ import annotations

import argparse
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
from looping import each
from snakemake.cli import get_argument_parser

import perturbations
from perturbations import retrieval, tta
from perturbations.base import errors
from perturbations.cli import rules
from perturbations.cli.main import parser
from perturbations.evaluation.protocols import registry as protocols
from perturbations.suites import published, registry

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "manifests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
HINT = "bring it up to date: python docs/generate.py"
snakemake_parser = cache(get_argument_parser)


def has_words(words: list[str]) -> None:
    """The words after `perturb`: its commands and their options; arguments may be missing."""
    if words[:1] == ["rule"]:
        assert set(words[1:2]) <= {rule for known in rules.JOBS.values() for rule in known}, words
        return
    group: argparse.ArgumentParser = parser()
    for word in words:
        choices = [action.choices for action in group._actions if action.choices and not action.option_strings]
        if word.startswith("-"):
            assert word in group._option_string_actions, word
        elif choices and isinstance(choices[0], dict):
            assert word in choices[0], word
            group = choices[0][word]
        elif choices:
            assert word in choices[0], word


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        assert linked.is_relative_to(ROOT), target
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), target


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
        assert {program, *words} & options(), span
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
    kinds = "|".join([*registry.suites(), "tta", "evaluate", "composed", "perturbed", "mine"])
    known = re.compile(
        rf"(\w+_)?({kinds})_\S+|report|egocvr|msrvtt_p|youcook2_p|all|check_model|manifests/\S+|work/\S+|TARGET"
    )
    assert [target for target in targets if not known.fullmatch(target)] == []


@each("words", [part.partition(" ")[2] for part in commands("snakemake ")])
def test_a_call_of_snakemake_is_one(words: str) -> None:
    is_planned(shlex.split(words.partition(" > ")[0], comments=True))


# --- what follows from the code --------------------------------------------------------------------------------------


def test_generated_parts_are_up_to_date() -> None:
    stale = [str(path.relative_to(ROOT)) for path in generate.stale()]
    assert not stale, f"{', '.join(stale)}: {HINT}"


def test_each_line_of_the_papers_names_a_way_that_there_is_or_a_reason() -> None:
    """Every table of results once, and yes where results or features reach one of its cells."""
    lines = [*coverage_table.lines()]
    assert {line.answer for line in lines} == {"yes", "no"}
    assert all(line.how and line.place for line in lines)
    every = [(line, number) for line in lines if line.what.endswith(" cells") for number in line.place[5:].split(", ")]
    answers = {(line.paper, number): line.answer for line, number in every}
    assert len(answers) == len(every)
    reached: dict[tuple[str, str], bool] = {}
    for cell in published.cells():
        own = protocols.papers()[cell.paper]
        reached.setdefault((own.title, cell.table), False)
        reached[own.title, cell.table] |= cell.status in ("shown", "needs features")
    not_read = {(own.title, number): "no" for own in protocols.papers().values() for number in own.not_read}
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


def test_a_suite_that_is_not_in_the_readme_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = registry.Suite(name="unknown", title="Unknown", reference="Nobody", perturbations=())
    known = registry.suites()
    monkeypatch.setattr(registry, "suites", lambda: {**known, "unknown": unknown})
    page, text = next(generate.files())
    assert page == ROOT / "README.md"
    assert text != page.read_text(encoding="utf-8")


def test_every_key_is_in_the_reference_and_measured_tables_are_of_today_s_versions() -> None:
    assert generate.undocumented_keys() == []
    assert generate.outdated(generate.measured()) == []


def test_a_table_of_another_version_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = generate.measured()
    tables["corpus"]["versions"]["mlvp/fog"] += 1
    monkeypatch.setattr(generate, "measured", lambda: tables)
    monkeypatch.setattr(generate, "stale", list)
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    assert re.search(r"the table 'corpus' .* mlvp/fog \(2, now 1\): run `python", capsys.readouterr().out)


@pytest.mark.parametrize("name", generate.measured())
def test_a_measured_table_names_a_command_that_there_is(name: str) -> None:
    program, script, *_ = generate.measured()[name]["command"].split()
    assert program == "python"
    assert (ROOT / script).is_file()


def test_every_room_is_explained_and_in_the_picture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert set(rooms.imports()) <= named
    assert len(page.splitlines()) <= 100, "two screens"
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert rooms.arrows(graph) == [("a", "b"), ("b", "c")]
    assert rooms.floors(graph) == {"c": 0, "b": 1, "a": 2}


# --- the site --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning, such as a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
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
    assert [name for name in registry.suites() if f'href="catalogue/{name}.html"' not in text] == []


def test_the_menu_leads_to_examples_of_both_pages(site: Path) -> None:
    menu = (site / "index.html").read_text(encoding="utf-8")
    pages = {name: (site / "examples" / f"{name}.html").read_text(encoding="utf-8") for name in ("corpus", "report")}
    assert all(f'href="examples/{name}.html"' in menu for name in pages)
    assert pages["corpus"].count('<article class="card"') == 7
    assert "R@1 96.4 % clean, 67.4 % under mlvp" in pages["report"]
    tables = re.findall(r'href="(report\.tables/[^"]+)"', pages["report"])
    assert tables
    assert all((site / "examples" / unquote(name)).is_file() for name in tables)


# --- The commands that benchmarks call are commands that there are ---


FOLDER = Path(__file__).parents[1] / "benchmarks"
CALLED = re.compile(r'(?:"-m", "perturbations", |perturb\()((?:"[a-z-]+"(?:, )?)+)')
"""The words of a command, in a list for subprocess or in the arguments of a helper."""

COMMANDS = sorted(
    {
        (path.name, *re.findall(r'"([a-z-]+)"', words))
        for path in FOLDER.glob("*.py")
        for words in CALLED.findall(path.read_text(encoding="utf-8"))
    }
)


def test_there_are_such_commands() -> None:
    assert ("corpus.py", "rule", "analyses") in {command[:3] for command in COMMANDS}


@each("command", COMMANDS)
def test_a_benchmark_calls_a_command_that_there_is(command: tuple[str, ...]) -> None:
    if command[1] == "rule":
        assert command[2:] == () or callable(rules.job(command[2]))
        return
    has_words([*command[1:]])


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


def test_texts_are_looked_at() -> None:
    assert len(TEXTS) > 300


@each("folder", sorted({path.parent for path in TEXTS}))
def test_named_files_are_there(folder: Path) -> None:
    named = {
        (path.name, name)
        for path in TEXTS
        if path.parent == folder
        for name in FILE.findall(path.read_text(encoding="utf-8"))
    }
    assert {(where, name) for where, name in named if not (ROOT / name).exists()} == set()
