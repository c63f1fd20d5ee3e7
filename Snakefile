# The workflow is workflow/Snakefile, which Snakemake and its catalog look for. This file is for commands that name `Snakefile`.
include: "workflow/Snakefile"


snakemake_inside.make_default(workflow, rules, "all")
