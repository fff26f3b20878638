# SPDX-License-Identifier: Apache-2.0
"""Write-combine laboratory: planted provider bugs, a checker that finds and names them."""
