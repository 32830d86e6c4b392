"""Hosts of a job: how they meet, agree, and learn of each other's end."""
