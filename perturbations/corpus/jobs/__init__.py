"""The jobs of rules that make corpora: one function per rule, called as the rule."""
