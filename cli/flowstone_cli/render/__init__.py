"""How documents are drawn as text: for people on a terminal, tab-separated in a pipe. No reading, no deciding."""
