"""The functions for other programs: perturb arrays, files and captions; corpora as sequences and datasets."""
