"""How values look: tables, JSON, YAML, names; sizes, ages and events for people."""
