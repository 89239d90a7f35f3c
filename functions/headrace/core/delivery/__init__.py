"""One delivery: to whom, in which order, how often, and what follows from an answer.

`subscriber` is what a consumer's metadata says of its subscriber, `lease` the right to pull for it, `delivery` decides
after each answer, `stage_record` and `parked` are what is kept aside meanwhile, and `order`, `window`, `pace` and
`byte_pool` say what a lease may ask for. All of it is pure: time and chance are arguments. This room does not know
manifests or Kubernetes, since `forward` must work when the API server is away; it imports no pydantic.
"""
