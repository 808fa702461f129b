# SPDX-License-Identifier: Apache-2.0
"""`python -m unbraid` is the command `unbraid`."""

from unbraid.commands.command_line import main

if __name__ == "__main__":
    main()
