"""One file per kind of operation: how it begins, how it is recognised on replay, and what its completion gives the body."""
