"""Parts shared by tests: trees, servers, torches, and ways to start programs."""
