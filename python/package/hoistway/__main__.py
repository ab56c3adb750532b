"""The command ``hoistway`` without its program: ``python -m hoistway test model:ssd``."""

import sys

from . import _hoistway

if __name__ == "__main__":
    sys.exit(_hoistway.main(["hoistway", *sys.argv[1:]]))
