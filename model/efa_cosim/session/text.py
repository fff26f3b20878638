# SPDX-License-Identifier: Apache-2.0
"""Formats bytes and byte ranges for messages."""

from __future__ import annotations

from collections.abc import Iterable


def first_bytes(data: bytes, limit: int) -> str:
    """Returns at most `limit` bytes in hexadecimal, with the total number if some are left out."""
    more = f"... ({len(data)} bytes)" if len(data) > limit else ""
    return data[:limit].hex() + more


def spans(numbers: Iterable[int]) -> list[str]:
    """Returns ranges of ascending byte numbers in words, such as `bytes 4 to 7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [f"bytes {first} to {last}" if first < last else f"byte {first}"
            for first, last in found]
