"""From perturbed frames to a file, its row and its journal."""
