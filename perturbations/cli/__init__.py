"""The command `perturb`."""
