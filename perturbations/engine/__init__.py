"""How an item is made: source, frames, file, row."""
