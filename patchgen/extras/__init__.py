"""Extras beside the core. The core imports none of them."""
