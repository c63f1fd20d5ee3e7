"""Published protocols, and whether a number may stand beside a published one."""
