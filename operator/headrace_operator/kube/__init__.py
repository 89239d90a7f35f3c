"""The Kubernetes API as this operator needs it: JSON over HTTPS, no models (ADR 021).

`access` reads where the API server is and who we are to it, `api` asks it, `watch` keeps a copy of all objects of a
kind, `election` holds the Lease of the one operator that works. This room knows no channel and no hook.
"""
