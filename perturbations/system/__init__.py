"""What the operating system and its files need: no room of the package is below this one but errors."""
