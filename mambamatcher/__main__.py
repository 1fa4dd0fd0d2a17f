"""`python -m mambamatcher` is the command line."""

from mambamatcher.cli import main

main()
