"""Tools for one's own pictures, on top of `Matcher`: each is a few functions that the command line calls."""
