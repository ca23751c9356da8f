"""A run in the forms of other programs: a page, a trace, a chart. Each makes text of a run and its child runs."""
