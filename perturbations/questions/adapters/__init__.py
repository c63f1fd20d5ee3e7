"""The annotation formats of sets of questions, a file each."""
