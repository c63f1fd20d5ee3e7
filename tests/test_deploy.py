"""The package as others get it: a wheel, the workflow as a module, the package page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import needs
import preloaded
import pytest
import yaml
from packaging.requirements import Requirement

import hatch_build
import perturbations
import release
from perturbations import read_manifest
from perturbations.base import project

pytestmark = needs.wings(*needs.WINGS)
REPOSITORY = Path(__file__).parents[1]
TINY = {
    "datasets": {"demo": {"adapter": "demo", "clips": 2}},
    "suites": {"mlvp": {"perturbations": ["fog"], "severities": [3]}},
    "shard_size": 2,
}


def run(*command: object, folder: Path, check: bool = True) -> str:
    """What a command prints, without this checkout on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == check, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- an installed wheel ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel of this checkout, and with the libraries of the Python that runs the tests."""
    root = tmp_path_factory.mktemp("fresh place")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", root / "dist", folder=REPOSITORY)
    run(sys.executable, "-m", "venv", "--without-pip", root / "venv", folder=root)
    fresh = root / "venv" / "bin" / "python"
    packages = Path(run(fresh, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=root).strip())
    # Not the checkout itself: the lines of other .pth files are not read from here.
    libraries = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "libraries.pth").write_text("\n".join(libraries))
    (wheel,) = (root / "dist").glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", fresh, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, wheel, folder=root)
    assert (packages / "perturbations" / "project" / "workflow" / "Snakefile").is_file()
    return fresh


@pytest.fixture
def installed(python: Path) -> Iterator[Path]:
    """The installed package's folder, which nobody may write to, and which a test must leave as it is."""
    package = next((python.parents[1] / "lib").glob("python3*/site-packages/perturbations"))
    before = contents(package)
    folders = [package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield package
    for folder in folders:
        folder.chmod(0o755)
    assert contents(package) == before


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file's time and size."""
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*") if path.is_file()}


def test_a_wheel_makes_a_corpus_in_a_folder_of_one_s_own(python: Path, installed: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "my corpus"
    assert "Snakefile" in run(python.parent / "perturb", "init", corpus.name, folder=tmp_path)
    (corpus / "config.yaml").write_text(yaml.safe_dump(TINY))
    printed = run(python, "-m", "snakemake", "--cores", "2", folder=corpus)
    assert "profiles/default" in printed
    assert "preflight: clips of demo: 2 to draw" in printed
    videos = read_manifest(corpus / "manifests" / "demo" / "mlvp" / "videos.parquet")
    assert list(videos["status"]) == ["complete"] * 2
    assert all(Path(path).is_file() and Path(path).is_relative_to(corpus) for path in videos["path"])
    assert (corpus / "manifests" / "demo" / "mlvp" / "preview.png").is_file()
    assert sorted(path.name for path in corpus.iterdir() if not path.name.startswith(".")) == [
        *("Snakefile", "config.yaml", "corpora", "manifests", "profiles", "work"),
    ]
    assert "2 rows, 0 of them" in run(python.parent / "perturb", "verify", folder=corpus)
    assert re.search(r"mlvp videos +2 +2 +100 %", run(python.parent / "perturb", "status", folder=corpus))
    manifest = "manifests/demo/mlvp/videos.parquet"
    export = (python.parent / "perturb", "export", manifest, "--format", "hub", "--clean", "-o", "hub")
    assert "hub: 4 videos written, 0 existed, 0 failed" in run(*export, folder=corpus)
    assert len(list((corpus / "hub").rglob("*.mp4"))) == 4


RENAMED = """
module corpora:
    snakefile:
        {snakefile!r}
    config:
        config["corpora"]

use rule * from corpora as perturbed_*

rule count:
    default_target: True
    input:
        "manifests/demo/sources.parquet",
    output:
        "count.txt",
    shell:
        "wc -c < {{input:q}} > {{output:q}}"
"""


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """A workflow of one's own that uses this one under other names, with its configuration among others."""
    text = 'configfile: "config/settings.yaml"\n' + RENAMED.format(snakefile=perturbations.snakefile())
    (tmp_path / "config").mkdir()
    (tmp_path / "Snakefile").write_text(text)
    (tmp_path / "config" / "settings.yaml").write_text(yaml.safe_dump({"mine": 1, "corpora": TINY}))
    return tmp_path


def snakemake(folder: Path, *arguments: str, check: bool = True) -> str:
    return run(*preloaded.command("snakemake"), "--cores", "1", *arguments, folder=folder, check=check)


def test_a_module_s_rules_may_have_other_names_beside_one_s_own(renamed: Path) -> None:
    """Its report knows the results that are made with it."""
    listed = snakemake(renamed, "--list-target-rules")
    assert re.search(r"^perturbed_mlvp_demo \(1 perturbations of mlvp x severities 3 on", listed, re.MULTILINE)
    assert re.search(r"^count$", listed, re.MULTILINE)
    planned = snakemake(
        renamed, "--dry-run", "-p", "--quiet", "host", "--", "perturbed_evaluate_demo", "perturbed_report"
    )
    assert re.search(r"^perturbed_report +1$", planned, re.MULTILINE)
    assert "localrules directive specifies" not in planned, "Snakemake does not rename such a list"
    assert "/evaluation/" in planned
    assert "/adaptation/" not in planned, "that is what the report takes where no results are requested"
    snakemake(renamed)
    assert (renamed / "count.txt").read_text().strip().isdigit()
    assert not (renamed / "corpora").exists(), "only what the own rule needs is made"


def test_a_module_may_leave_rules_out(renamed: Path) -> None:
    text = (renamed / "Snakefile").read_text()
    (renamed / "Snakefile").write_text(text.replace("use rule *", "use rule sources, sources_manifest"))
    planned = snakemake(renamed, "--dry-run", "-p", "--quiet", "host")
    assert re.search(r"^perturbed_sources +1$", planned, re.MULTILINE)


def test_conda_installs_the_checkout_or_the_release_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = REPOSITORY / "envs" / "perturb.post-deploy.sh"
    shim = tmp_path / "bin" / "python"
    shim.parent.mkdir()
    shim.write_text('#!/bin/sh\nprintf "%s|" "$@"; echo\n')
    shim.chmod(0o755)
    given = {"PERTURBATIONS_PROJECT": "/a b", "PERTURBATIONS_PACKAGE": "/a b/checkout[text]"}
    environment = {**os.environ, **given, "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=True)
    wanted = "-P|-m|pip|install|--constraint|/a b/envs/constraints.txt|/a b/checkout[text]|"
    assert done.stdout.splitlines()[0] == wanted
    assert list(project.environment().values()) == [str(REPOSITORY), f"{REPOSITORY}[text,models]"]
    monkeypatch.setattr(project, "_INSTALLED", REPOSITORY)
    assert project.environment()["PERTURBATIONS_PACKAGE"] == f"perturbations[text,models]=={perturbations.__version__}"
    monkeypatch.setattr(project, "_about", lambda: ("https://github.com/of/it", perturbations.__version__))
    tag = f"perturbations[text,models] @ git+https://github.com/of/it@v{perturbations.__version__}"
    assert project.environment()["PERTURBATIONS_PACKAGE"] == tag
    assert project.installation("text") == f"pip install '{project.release('text')}'"


# --- the Snakemake workflow catalog -----------------------------------------------------------------------------------

_ALONE = """
import pkgutil, runpy, sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *given: None if name.partition(".")[0] in {absent} else find(name, *given)
modules = pkgutil.iter_modules
pkgutil.iter_modules = lambda *given: (module for module in modules(*given) if module.name not in {absent})
sys.path[:] = [place for place in sys.path if place != {checkout!r}]
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
"""


def distributions(name: str, seen: set[str]) -> set[str]:
    """The names of a distribution and of all that it needs, without extras."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name not in seen:
        seen.add(name)
        needed = map(Requirement, metadata.requires(name) or [])
        for requirement in needed:
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                distributions(requirement.name, seen)
    return seen


@pytest.mark.parametrize(
    ("argument", "printed"), [("--lint", "Congratulations"), ("-n", r"\nvideos +60\n(.*\n)+all +1\n")]
)
def test_snakemake_alone_plans_a_checkout(argument: str, printed: str, tmp_path: Path) -> None:
    """Without the package's libraries; `-n` plans the default target."""
    files = ("--snakefile", REPOSITORY / "workflow/Snakefile", "--configfile", REPOSITORY / "config.yaml")
    assert re.search(printed, run(*alone(), "--directory", tmp_path, *files, argument, folder=REPOSITORY))


def alone() -> list[str]:
    """The command of a Snakemake beside which nothing is installed, and no other package than that of a checkout."""
    known = distributions("snakemake", set())
    absent = {
        module
        for module, owners in metadata.packages_distributions().items()
        if module != "perturbations" and not any(re.sub(r"[-_.]+", "-", owner).lower() in known for owner in owners)
    }
    assert {"numpy", "pyarrow", "tqdm", "cv2", "av"} <= absent
    return [sys.executable, "-c", _ALONE.format(absent=absent, checkout=str(REPOSITORY)), "--cores", "1"]


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_snakedeploy_deploys_a_project_that_makes_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the address of a repository, for which git takes a clone of this checkout.

    Snakemake alone plans it with the package of its clone, and says what its jobs need.
    """
    address, ours = "https://github.com/of/perturbations", tmp_path / "repository"
    left_out = ("tests", "docs", "benchmarks", "site", "corpora", "manifests", "work", "tutorial")
    shutil.copytree(REPOSITORY, ours, symlinks=True, ignore=shutil.ignore_patterns(".*", *left_out))
    git = ("git", "-c", "user.name=n", "-c", "user.email=e")
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "all"], ["tag", "v1"]):
        run(*git, *command, folder=ours)
    settings = {"COUNT": "1", "KEY_0": f"url.{ours}.insteadOf", "VALUE_0": address}
    for name, value in settings.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    snakedeploy = (sys.executable, "-c", "from snakedeploy.client import main; main()")
    run(*snakedeploy, "deploy-workflow", address, "mine", "--tag", "v1", folder=tmp_path)
    mine = tmp_path / "mine"
    assert {path.name for path in mine.iterdir()} == {"LICENSE", "config", "profiles", "workflow"}
    assert yaml.safe_load((mine / "config" / "config.yaml").read_text())["datasets"], "the commented configuration"
    (mine / "config" / "config.yaml").write_text(yaml.safe_dump(TINY))
    plain = (*alone(), "--workflow-profile", "none")  # the profiles name the package's logger
    assert re.search(r"\nvideos +1\n", run(*plain, "-n", folder=mine))
    failed = run(*plain, folder=mine, check=False)
    (unpacked,) = (tmp_path / "cache").rglob("perturbations-*")
    assert f"jobs need the package and its libraries: pip install {unpacked}" in failed
    assert "Traceback" not in failed
    module = f'module p:\n    snakefile: "git+file://{ours}/workflow/Snakefile@v1"\nuse rule * from p\n'
    (mine / "local").write_text(module)
    assert f"pip install git+file://{ours}@v1 " in run(*plain, "-n", "--snakefile", "local", folder=mine, check=False)
    run(*preloaded.command("snakemake"), "--cores", "2", folder=mine)
    assert list(read_manifest(mine / "manifests" / "demo" / "mlvp" / "videos.parquet")["status"]) == ["complete"] * 2


# --- what others read of the package ---------------------------------------------------------------------------------


def test_the_package_page_has_absolute_links_only() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    url = "https://forge.example/group/perturbations"
    page = hatch_build.page(readme, url)
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert len(links) == len(re.findall(r"\]\(([^)]*)\)", readme)) > 20
    assert all(link.startswith(("https://", "#")) for link in links)
    assert f"![One frame of the demo under every perturbation and severity]({url}/raw/HEAD/docs/mlvp.png)" in page
    for path in re.findall(rf"{url}/(?:raw|blob)/HEAD/([^)#]*)", page):
        assert (REPOSITORY / path).exists(), path
    without = hatch_build.page(readme, None)
    assert not re.search(r"\]\((?!https?://|#)", without)
    assert "Next, read the tutorial" in without


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, None),
        ({"PERTURBATIONS_URL": "https://forge.example/p/"}, "https://forge.example/p"),
        ({"GITHUB_REPOSITORY": "a/b"}, "https://github.com/a/b"),
        ({"GITHUB_REPOSITORY": "a/b", "GITHUB_SERVER_URL": "https://forge.example"}, "https://forge.example/a/b"),
        ({"PERTURBATIONS_URL": "https://forge.example/p", "GITHUB_REPOSITORY": "a/b"}, "https://forge.example/p"),
    ],
)
def test_links_lead_to_the_repository_that_builds(environment: dict[str, str], url: str | None) -> None:
    assert hatch_build.repository(environment) == url


def test_the_files_that_describe_the_project_agree() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert citation["version"] == perturbations.__version__
    assert citation["license"] == declared["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in declared["authors"]]
    assert citation["authors"][0]["name"] in (REPOSITORY / "LICENSE").read_text()
    ci = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "ci.yml").read_text())
    versions = ci["jobs"]["checks"]["strategy"]["matrix"]["python"]
    offered = [name.rpartition(" ")[2] for name in declared["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert versions == offered
    assert "bash .ci/run" in [step.get("run") for step in ci["jobs"]["checks"]["steps"]]
    # What `snakemake --report` needs, besides Snakemake.
    reports = {Requirement(line) for line in metadata.requires("snakemake") or [] if 'extra == "reports"' in line}
    ours = {Requirement(line).name for line in declared["dependencies"]}
    assert {requirement.name for requirement in reports} == {"pygments"} <= ours


def test_a_release_sets_the_version_everywhere() -> None:
    names = ("perturbations/__init__.py", "CITATION.cff", "CHANGELOG.md")
    before = {name: (REPOSITORY / name).read_text() for name in names}
    before["CHANGELOG.md"] = "# Changelog\n\n## Unreleased\n\n- More.\n\n## 0.0.1 (2020-01-01)\n\n- Less.\n"
    after = release.released(before, "9.1.0", "2031-02-03")
    assert after["perturbations/__init__.py"].count('__version__ = "9.1.0"') == 1
    citation = yaml.safe_load(after["CITATION.cff"])
    assert (citation["version"], str(citation["date-released"])) == ("9.1.0", "2031-02-03")
    assert "## Unreleased\n\n## 9.1.0 (2031-02-03)\n\n- More.\n\n## 0.0.1" in after["CHANGELOG.md"]
    later = release.released({**after, "CHANGELOG.md": before["CHANGELOG.md"]}, "9.2.0", "2031-03-01")
    assert later["CITATION.cff"].count("date-released") == 1
    for texts, version in ((before, "9.1"), (before, "0.0.9"), (after, "9.2.0")):
        with pytest.raises(SystemExit, match=r"release\.py: "):
            release.released(texts, version, "2031-02-03")


def test_the_container_s_files_exist() -> None:
    text = (REPOSITORY / "envs" / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    assert copied == [".", "envs/constraints.txt"]
    assert all((REPOSITORY / path).exists() for path in copied)
    wanted = set(re.findall(r"EXTRAS=([a-z,]+)", text)) - {""}
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for choice in wanted for extra in choice.split(",")} <= set(extras)


_APPTAINER = """#!/bin/sh
[ "$1" = --version ] && exec echo "apptainer version 1.3.0"
echo "$@" >> {log}
while [ "$1" != bash ]; do shift; done
PATH={image}:$PATH exec "$@"
"""


def test_jobs_run_in_the_image_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for Apptainer, which writes down its words and runs what is asked of the image."""
    programs = tmp_path / "bin"
    programs.mkdir()
    perturb = Path(preloaded.command("perturb")[0])
    (programs / "apptainer").write_text(_APPTAINER.format(log=tmp_path / "log", image=perturb.parent))
    (programs / "apptainer").chmod(0o755)
    (programs / "singularity").symlink_to("apptainer")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(TINY))
    command = (*preloaded.command("snakemake"), "--snakefile", perturbations.snakefile(), "--cores", "1", "--no-hooks")
    command += ("--software-deployment-method", "apptainer", "--", "manifests/demo/sources.parquet")
    assert "set PERTURBATIONS_IMAGE to an image" in run(*command, folder=tmp_path, check=False)
    (tmp_path / "my.sif").touch()
    monkeypatch.setenv("PERTURBATIONS_IMAGE", str(tmp_path / "my.sif"))
    run(*command, folder=tmp_path)
    called = [line for line in (tmp_path / "log").read_text().splitlines() if f"{tmp_path}/my.sif bash -c" in line]
    assert [re.findall(r"perturb rule (\w+)", line) for line in called] == [["sources"], ["merge"]]
