"""Agent CLIs as providers: asked once, and read in their own formats."""
