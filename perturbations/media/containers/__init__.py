"""The containers that are read, and checks that a file is complete. Standard library only."""
