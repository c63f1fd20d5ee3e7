"""The backends: who plays a model's role. Nothing is imported or loaded before it is asked for."""
