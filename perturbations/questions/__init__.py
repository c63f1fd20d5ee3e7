"""Questions of multiple choice about clips: their table, ways to the harnesses that ask models, and paired answers."""
