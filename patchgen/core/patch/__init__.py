"""Options and a pin make a patch; a patch changes a tree."""
