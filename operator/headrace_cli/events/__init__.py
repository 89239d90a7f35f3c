"""Events: composed and sent, read from a stream without a trace, shown, filtered."""
