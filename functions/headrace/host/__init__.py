"""From FUNCTION_TARGET to a served ASGI application: the wiring of stories and effects, and nothing else.

The import opens no connection and starts no server; both hosts (functions-framework, kn func's scaffold) and
`python -m headrace.host` call `application` and `serve`.
"""

from headrace.host.app import App, application
from headrace.host.serving import serve

__all__ = ["App", "application", "serve"]
