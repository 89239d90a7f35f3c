"""What each command does: it turns the options into arguments, calls the verb, and prints what the verb returns.

Behind each module of words in `headrace_cli.commands` stands the module of the same name here. It is imported when a
verb runs, since it brings the rooms of the verbs, and with them what speaks NATS.
"""
