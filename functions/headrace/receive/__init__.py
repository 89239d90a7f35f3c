"""The story of `receive`: decode, name, publish, answer; and which requests take the short way.

`story` has the order of effects of an accepted event and the table of answers. Effects arrive as arguments, so this
room imports core only. `headrace.host` calls it for each request that is not a probe.
"""
