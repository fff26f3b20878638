# SPDX-License-Identifier: Apache-2.0
"""Attributes the cycles of each message to service and named waits."""
