"""What the tests share: trees, servers, torches, and ways to start programs."""
