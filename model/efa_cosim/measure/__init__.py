# SPDX-License-Identifier: Apache-2.0
"""Measurements: workloads of the driver, latencies and rates from events."""
