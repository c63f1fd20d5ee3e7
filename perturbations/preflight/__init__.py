"""`perturb check`: what a run needs and will make, and what stops it before its first job."""
