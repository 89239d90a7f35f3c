"""How values look: tables, JSON, YAML and names; sizes, ages and events for people; and how far an operation is.

Text comes out, values go in; nothing here knows NATS, files or click. Every room of the command line may import it, and
it imports none.
"""
