"""What must be made: items, shards, recipes, targets, and what a rule asks of a job."""
