"""The Kubernetes API as this operator needs it: JSON over HTTPS, no models (ADR 021)."""
