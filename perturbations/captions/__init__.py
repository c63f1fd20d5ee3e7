"""How perturbed captions are made."""
