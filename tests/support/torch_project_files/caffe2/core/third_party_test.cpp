extern "C" const char* torch_third_party();

int main() { return torch_third_party()[0] == '\0'; }
