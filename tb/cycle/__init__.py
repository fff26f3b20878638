# SPDX-License-Identifier: Apache-2.0
"""The cycle model held against the RTL: the same workload on both, message by message."""
