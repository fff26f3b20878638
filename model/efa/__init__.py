# SPDX-License-Identifier: Apache-2.0
"""Executable reference of the device, its driver half and its layouts."""
