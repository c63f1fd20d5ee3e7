"""What annotations list, and where its videos are. Standard library only."""
