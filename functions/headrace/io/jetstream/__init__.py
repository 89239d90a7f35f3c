"""JetStream over a connection: the data path, the administration of streams and consumers, and the aside stream.

`api` asks the server in its own JSON; `data_path` publishes, pulls and settles; `admin` reads and makes streams and
consumers, and `own_account` does so through another `reconcile`, for channels whose NATS account is their own. What the
server says becomes our values and errors here. Decisions are `headrace.core`'s and the stories'.
"""
