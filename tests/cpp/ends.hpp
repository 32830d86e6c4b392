/// The interface of a job's end, the same in the real library and the simulator.
#pragma once

#include <switchml/job.h>

#include <string>

/// Finds a wrong call at the end of a job of its own; empty where there is none.
inline std::string objectionToEnds() {
  for (const auto end : {switchml::FINISHED, switchml::FAILED}) {
    switchml::Job job({}, switchml::ALLREDUCE, {});
    int calls = 0;
    const auto count = [&] { calls += job.GetJobStatus() == end ? 1 : 100; };
    job.CallAtEnd(count);
    job.SetJobStatus(switchml::QUEUED);
    job.SetJobStatus(switchml::RUNNING);
    if (calls != 0) {
      return "called before the end";
    }
    job.SetJobStatus(end);
    job.SetJobStatus(end);
    if (calls != 1) {
      return "not called once at the end";
    }
    job.CallAtEnd(count);
    if (calls != 2) {
      return "not called at once after the end";
    }
  }
  return "";
}
