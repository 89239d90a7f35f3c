"""The command line itself: options, help, examples, and in `actions` what each command does with them.

This room alone knows click, prints and asks. The modules with the words are imported for `--help`, which is to take no
time: they import click and values only, and the module of `actions` behind a verb when the verb runs.
"""
