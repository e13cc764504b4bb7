"""Tests in a lab of virtual machines; scripts/dev vmlab runs them, in minutes each."""
