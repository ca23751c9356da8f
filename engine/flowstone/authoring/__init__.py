"""What authors write with: definitions of workflows and steps, the Flow of a body, and finding them in files."""
