# SPDX-License-Identifier: Apache-2.0
"""What people call, in Python as `unbraid.<verb>` and on the command line as `unbraid <verb>`.

One file for each verb with a function of its name. Modules here import torch and the rest inside
functions, so that `import unbraid` and `unbraid --help` stay quick.
"""
