"""A CloudEvent, and its way between HTTP, JSON and NATS messages.

`event` is the value and the rules for its attributes; `http_codec`, `nats_codec` and `json_format` are the complete
way, with the same verbs each. `whole_post` with `stored_block`, and `posted_lines`, are the short way of `receive` and
of `forward`: they do the same for ordinary events without a value in between, and decline the rest; property tests
hold them to the codecs. This room does not know who sends, where an event is kept or what a subscriber answered.
"""
