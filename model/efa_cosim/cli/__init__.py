# SPDX-License-Identifier: Apache-2.0
"""The program efa-cosim, one module for each command."""
