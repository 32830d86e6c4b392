"""From options and a pin to a patch, and from a patch to a patched tree."""
