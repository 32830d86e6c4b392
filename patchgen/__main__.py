"""`python -m patchgen` is `switchml-patch`."""

from patchgen.entry import main

if __name__ == "__main__":
    main()
