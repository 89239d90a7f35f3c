"""A CloudEvent, and its way between HTTP, JSON and NATS messages.

`event` is the value and the rules for its attributes; `http_codec`, `nats_codec` and `json_format` are the complete
way, with the same verbs each. `stored_block`, `posted_lines` and `plain_post` do the same for ordinary events without a
value in between, and decline the rest: a property test holds them to the codecs. This room does not know who sends,
where an event is kept or what a subscriber answered.
"""
