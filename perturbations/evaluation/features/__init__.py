"""Features that any program computed: read, written, and scored."""
