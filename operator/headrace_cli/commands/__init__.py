"""The words of the command line: options, help and examples; what a verb does is in the packages beside this one.

Every module here is imported for `--help`, which is to take no time: they import click and values only, and what a
verb does when it is done.
"""
