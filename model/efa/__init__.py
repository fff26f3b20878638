"""Executable reference of the device, its driver half and its layouts."""
