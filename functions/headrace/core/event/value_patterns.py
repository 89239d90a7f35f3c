"""Patterns of header values that mean themselves, for those who read many headers in one pass.

All possessive: no value is looked at twice, whatever it is. Times of 29 February match none, and have to be looked at.
"""

_DAY = rb"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
_CLOCK = rb"[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d++)?+(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
TOKEN = rb"[\w!#$%&'*+.^`|~-]++"

TIME = rb"\d{4}-" + _DAY + _CLOCK
# Parameters end in a character that is no blank, as the whole value does.
TYPE = rb"(?!(?i:application/cloudevents))" + TOKEN + rb"/" + TOKEN + rb"(?: *+;(?: *+[\x21-\x7e]++)*+)?+"
PASSING = rb"[\x21-\x7e]++(?: ++[\x21-\x7e]++)*+"
