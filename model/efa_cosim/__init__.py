# SPDX-License-Identifier: Apache-2.0
"""Executable reference model of the device, the host driver and the layouts."""
