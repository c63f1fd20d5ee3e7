"""The backends: which model has a role. Nothing is imported or loaded before it is needed."""
