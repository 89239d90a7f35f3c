"""Fixtures of the tests of one connection with a short way in front."""

from tests.support.http.fronted import application, clock, connection, transport

__all__ = ["application", "clock", "connection", "transport"]
