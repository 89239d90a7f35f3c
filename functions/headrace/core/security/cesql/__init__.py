"""CESQL, the expression language of CloudEvents: a text becomes a tree, and a tree becomes a function of attributes.

    text ──parse──▶ tree (lists of JSON) ──compiled──▶ Expression ──evaluate──▶ value and error

Whoever writes an expression parses it once, with the parser library; whoever evaluates it at an event's time gets the
tree, and needs neither text nor parser. Pure. Called by `headrace.core.security.filters`.

Source: CloudEvents SQL Expression Language 1.0, and its grammar files where the text is silent or differs.
"""
