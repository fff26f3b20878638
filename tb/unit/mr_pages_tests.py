"""efa_mr_pages: the page count by the formula of the sheet, and every number that is refused."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa.defs import PROFILES, AdminRegMrCmd
from tb.lib.stream import rng_for
from tb.lib.timing import timing
