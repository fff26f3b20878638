# SPDX-License-Identifier: Apache-2.0
"""Runs the program: python -m efa_cosim.cli."""

import sys

from efa_cosim.cli.main import main

sys.exit(main())
