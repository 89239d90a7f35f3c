"""The story of `receive`: decode, name, publish, answer, wake; and the short way, which most events take.

`story` has the order of effects of an accepted event and the table of answers, `route` finds the channel of a request,
`short_way` takes whole posts straight from the socket's bytes and leads to the same end, `pace` slows whoever asks for
channels that do not exist. Effects arrive as arguments, so this room imports core only. `headrace.host` wires it, and
the server asks the short way first.
"""
