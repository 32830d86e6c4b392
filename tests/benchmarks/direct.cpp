// Times the client library alone: direct NUMEL ROUNDS, with a switchml.cfg in the current
// directory.
#include <switchml/context.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  std::vector<float> values(std::strtoull(argv[1], nullptr, 10), 1.0F);
  const int rounds = std::atoi(argv[2]);
  auto& context = switchml::Context::GetInstance();
  if (!context.Start()) {
    return 1;
  }
  const auto sum = [&] {
    const auto job = context.AllReduce(values.data(), values.data(), values.size(),
                                       switchml::FLOAT32, switchml::SUM);
    return job->GetJobStatus() == switchml::FINISHED;
  };
  if (!sum()) {
    return 1;
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) {
    if (!sum()) {
      return 1;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.9f\n", seconds.count() / rounds);
  context.Stop();
  return 0;
}
