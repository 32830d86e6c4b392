"""Trainings that go on while a seeded plan kills, stops and cuts off what they need.

Other tests break one thing at a moment that they choose. These break one thing after another at
moments that nobody has chosen, and compare each sum with its inputs, the weights with those of an
undisturbed training, and what is left behind with nothing. Programs that disturb clusters, such as
Chaos Mesh, need Kubernetes or Docker and know nothing of sums; hypothesis would run a training of
minutes again and again to shrink a plan that may not fail twice.
"""
