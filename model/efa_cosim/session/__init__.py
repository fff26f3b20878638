# SPDX-License-Identifier: Apache-2.0
"""Recorded sessions: reads, translates, plays and compares them."""
