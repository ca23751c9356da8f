"""The store of one machine: a SQLite file, a lock file beside it, and a folder with one file per living process."""
