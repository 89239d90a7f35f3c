"""How channels do: numbers for people (`report`), a status for monitors (`check`), findings with cures (`doctor`).

`facts` asks NATS once for all that is known, and the rules decide on these values alone. This room changes nothing but
a leader (`leadership`), and prints nothing; only the commands import it.
"""
