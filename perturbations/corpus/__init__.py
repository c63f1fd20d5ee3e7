"""The one way from an item to its file and row: plan, recipe, source, frames or caption; and whether they hold."""
