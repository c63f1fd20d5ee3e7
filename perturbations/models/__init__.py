"""The backends: which model has a role, and what guides and analyses know of a clip. Loaded when they are needed."""
