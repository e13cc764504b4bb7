"""Jobs on parts of one node: how fast each is alone and beside the others, and why."""
