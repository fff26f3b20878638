"""The jobs of the program, one module and one subcommand each."""
