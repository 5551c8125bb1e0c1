// Node has its own.
