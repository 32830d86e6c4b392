#pragma once

/// Runs all scenarios of the threads that take parts of a row; ends the process where one fails.
void checkThreads(bool forks);

/// The same for the states of the delegate's classes.
void checkStates();
