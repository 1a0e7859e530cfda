"""Jobs: what an execution runs, the inputs that fill it in, and the documents it is read from."""
