# SPDX-License-Identifier: Apache-2.0
"""Names the folder of the source tree, which holds spec/, rtl/ and the results."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
