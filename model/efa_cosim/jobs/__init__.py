# SPDX-License-Identifier: Apache-2.0
"""Processes of jobs and atomic files."""
