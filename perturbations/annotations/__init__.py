"""Listings of annotations, and the readers of their files. Standard library only."""
