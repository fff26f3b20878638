"""Writes the reference pages: where each bit is and what it is called."""


def registers(spec):
    return ""


def layouts(spec):
    return ""
