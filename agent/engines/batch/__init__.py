"""What engines share whose jobs have a batch script: it runs a command once, guards its lease and records its end."""
