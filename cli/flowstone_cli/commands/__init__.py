"""One module per verb, named for it: parse, work, render. Only the verb asked for is imported."""
