# SPDX-License-Identifier: Apache-2.0
"""Uses memory regions of many pages: contiguous and chained lists, from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.endpoints import Endpoint, Node, pattern

if TYPE_CHECKING:
    from random import Random


def long_page_list(backends: Sequence[Any], rng: Random) -> None:
    """Registers a region of many pages through a contiguous list."""
    node = Node(backends[0])
    region = node.pd.reg_mr(300 * PAGE_BYTES, offset=100, scattered=True)
    region.write(0, rng.randbytes(1000))
    region.dereg()
    again = node.pd.reg_mr(300 * PAGE_BYTES)
    assert again.l_key != region.l_key


def chained(backends: Sequence[Any], rng: Random) -> None:
    """Uses chained page lists: data through the first, a middle and the last of many pages."""
    node = Node(backends[0])
    node.driver.list_bytes = 0  # no contiguous list
    a, b = Endpoint(node), Endpoint(node)
    for pages in (5, 512, 513, 3000):
        region = node.pd.reg_mr(pages * PAGE_BYTES, scattered=True)
        b.buffer = region
        for offset in (0, rng.randrange(pages - 1) * PAGE_BYTES + 3, pages * PAGE_BYTES - 4000):
            data = pattern(3900, offset)
            b.receive(4000, offset=offset)
            a.send(b, data)
            b.cq.wait_for(1)
            a.cq.wait_for(1)
            assert region.read(offset, len(data)) == data
        region.dereg()
    backends[0].settle()
