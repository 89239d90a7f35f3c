"""One delivery: to whom, in which order, how often, and what follows from an answer.

`subscriber` is a consumer's metadata about its subscriber, and `lease` is the right to pull for it. `delivery` decides
after each answer; `stage_record` and `parked` are the messages that are kept aside meanwhile. `order`, `window`, `pace`
and `byte_pool` say what a lease may ask for. All of it is pure: time and chance are arguments. This room does not know
manifests or Kubernetes, since `forward` must work when the API server is away; it imports no pydantic.
"""
