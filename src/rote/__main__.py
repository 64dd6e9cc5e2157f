"""`python -m rote`: the command, where its script is not on the path."""

from rote.cli import main

if __name__ == "__main__":
    main()
