# The workflow is workflow/Snakefile, which Snakemake and its catalog look for. This file is for commands that name `Snakefile`.
include: "workflow/Snakefile"


# An include gives the default target back.
workflow.default_target = rules.all.rule.name
