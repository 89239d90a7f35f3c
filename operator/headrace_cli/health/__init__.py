"""How channels do: numbers for people (`report`), for monitors (`check`), and for whoever wonders (`doctor`)."""
