"""What Snakemake asks before a run: items, shards, recipes, targets, and what jobs request."""
