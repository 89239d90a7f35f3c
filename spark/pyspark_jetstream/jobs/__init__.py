"""What the jobs in `spark/jobs/` share: so each of them is one file, which spark-submit can take from anywhere."""
