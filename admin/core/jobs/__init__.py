"""Jobs: what an execution runs, its inputs, and the documents that jobs are read from."""
