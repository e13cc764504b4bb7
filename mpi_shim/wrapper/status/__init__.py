"""How the sender's status travels: in front of a message, or beside it."""
