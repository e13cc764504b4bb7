"""Asks and answers other domains: messages, repeated questions, answers given once."""
