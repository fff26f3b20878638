# SPDX-License-Identifier: Apache-2.0
"""Sweeps: grids of jobs, their processes and their cache."""
