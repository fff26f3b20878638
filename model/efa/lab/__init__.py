"""The write-combine laboratory: planted provider bugs, a checker that finds and names them."""
