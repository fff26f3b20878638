# SPDX-License-Identifier: Apache-2.0
"""Report pages and plots."""
