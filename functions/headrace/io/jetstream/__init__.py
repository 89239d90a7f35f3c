"""JetStream over a connection: the data path, the administration of streams and consumers, and the aside stream.

`api` asks the server in its own JSON; `data_path` publishes, pulls and settles; `admin` reads and makes streams and
consumers, and `own_account` does so through another `reconcile`, for channels with a NATS account of their own. This
room turns the server's answers into our values and errors. Decisions belong to `headrace.core` and the stories.
"""
