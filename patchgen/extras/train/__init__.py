"""Trainings through SwitchML on this machine: run, doctor and demo."""
