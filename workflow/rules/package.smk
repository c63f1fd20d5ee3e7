# The Python package of the workflow: its own in a checkout, the installed one, or that of the repository it is read from.
import os
import shlex
import sys
import tarfile
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from snakemake.exceptions import WorkflowError


def has_package():
    """Whether the package can be imported: a folder of its name alone has no origin."""
    return getattr(find_spec("perturbations"), "origin", None) is not None


# A checkout's own package, also where it is not installed. Where Snakemake reads the workflow from a repository, and the
# package is not installed, it is unpacked once per commit, beside Snakemake's clone.
HERE = workflow.current_basedir
PROJECT = Path(HERE.get_path_or_uri(secret_free=True)).parents[1]
if hasattr(HERE, "hosted_repo") and not has_package():
    CLONE = HERE.hosted_repo
    COMMIT = CLONE.repo.commit(HERE.ref)
    PROJECT = Path(f"{CLONE.repo_clone}-{COMMIT.hexsha}")
    if not PROJECT.is_dir():
        with (
            tempfile.TemporaryFile() as packed,
            tempfile.TemporaryDirectory(dir=PROJECT.parent) as unpacked,
        ):
            CLONE.repo.archive(packed, COMMIT.hexsha)
            packed.seek(0)
            with tarfile.open(fileobj=packed) as archive:
                archive.extractall(Path(unpacked, "project"), filter="data")
            with suppress(OSError):  # another process was as far
                os.rename(Path(unpacked, "project"), PROJECT)
sys.path.insert(0, str(PROJECT))

if not has_package():
    ADDRESS = "git+ADDRESS_OF_ITS_REPOSITORY"
    if hasattr(HERE, "repo_path"):  # a repository on this machine
        ADDRESS = f"git+file://{os.path.abspath(HERE.repo_path)}@{HERE.ref}"
    raise WorkflowError(
        f"This workflow needs its Python package: pip install {shlex.quote(ADDRESS)} (it was read from {PROJECT})"
    )
