"""Published protocols, and whether a number may be shown beside a published one."""
