"""The web server: an HTTP API, and an annotation page in plain HTML, CSS and JavaScript."""
