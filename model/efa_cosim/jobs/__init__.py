# SPDX-License-Identifier: Apache-2.0
"""Jobs: their processes, limits and stored results; progress; atomic files."""
