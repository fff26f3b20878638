# SPDX-License-Identifier: Apache-2.0
"""Regressions: lists of tests, their runs and the table of results."""
