"""`python -m askew`: the command `askew`, where the script is not on the path."""

from askew.cli.app import main

if __name__ == "__main__":
    main()
