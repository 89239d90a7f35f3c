"""The common parts of the jobs in `spark/jobs/`: so each job is one file, which spark-submit takes from anywhere."""
