"""The journal's vocabulary and every fold over it: pure, no I/O, never the author's code."""
