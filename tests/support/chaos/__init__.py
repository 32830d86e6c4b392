"""Trainings that go on while a seeded plan kills, stops and cuts off what they need."""
