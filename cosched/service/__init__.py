"""Has what each daemon needs: a loop, sockets for users, and the limits of each user."""
