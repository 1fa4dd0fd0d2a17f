"""Pictures of matches and maps."""
