"""What people read of a run: what it needs, how far it is, and the pages of what it made."""
