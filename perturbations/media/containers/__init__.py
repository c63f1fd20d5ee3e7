"""Is a file as long as its container says, and which containers are read. Standard library only."""
