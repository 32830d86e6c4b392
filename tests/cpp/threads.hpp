#pragma once

/// Returns whether the client library's context runs.
bool contextRuns();

/// Returns how often a poll(2) with a limit has ended without an event.
int vainWaits();

/// Runs all scenarios of the threads that take parts of a row; ends the process where one fails.
void checkThreads(bool forks);

/// The same for the states of the delegate's classes.
void checkStates();

/// Prints why the delegate refuses the configuration in a file, or else its terms. For all sizes,
/// prints a line for each num_workers that it refuses.
void printRefusal(const char* path, bool allSizes);
