"""The matcher in a browser: a typed API, and one page of plain HTML, CSS and JavaScript."""
