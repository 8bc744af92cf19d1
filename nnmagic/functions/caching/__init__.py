"""Say what a compilation depends on, and find it in memory or on disk."""
