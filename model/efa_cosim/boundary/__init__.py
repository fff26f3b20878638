# SPDX-License-Identifier: Apache-2.0
"""The boundary of a device: host memory, the backend interface and observation events."""
