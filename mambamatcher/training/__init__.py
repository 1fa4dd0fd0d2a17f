"""Training on Lightning: a recipe in, a run folder out."""
