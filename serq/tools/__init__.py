"""Editor and test integrations."""
