"""Plans which waiting job starts when: in order, EASY, conservative."""
