# SPDX-License-Identifier: Apache-2.0
"""Compares the cycle model with the RTL: the same workload on both, message by message."""
