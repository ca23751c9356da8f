"""The command line of Flowstone: the command `flow`."""

VERSION = "0.1.0"
