"""Tools for one's own images, on top of `Matcher`: each is a few functions that the command line calls."""
