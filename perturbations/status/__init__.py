"""`perturb status` and `perturb retry`: how far a run is, and what failed."""
