# SPDX-License-Identifier: Apache-2.0
"""The jobs of the program, one module and one subcommand each."""
