"""The logger `perturb` of Snakemake, which the profiles name. Snakemake finds it by the name of this folder."""

from perturbations.cli.terminal import LogHandler as LogHandler
