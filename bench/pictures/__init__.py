"""Pictures of a run: the dashboards with its values, and screens of the command line. For the documents."""
