"""The backends: which model plays a role, and what guides and analyses know of a clip. Loaded when they are needed."""
