// SPDX-License-Identifier: Apache-2.0
// A pool of 32 threads with sessions, which makes its requests and ends.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> idle;

static void sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

static void work(unsigned draw) {
    std::vector<std::string> sessions(300);
    for (int request = 0; request < 500; request++) {
        std::vector<std::string> parts;
        for (int i = 0; i < 200; i++)
            parts.emplace_back((draw = draw * 1103515245 + 12345) >> 16 & 1023, 'x');
        sessions[draw % sessions.size()] = parts.back() + parts.front();
    }
    for (idle++;;) sleep();
}

int main() {
    for (int i = 0; i < 32; i++) std::thread(work, i).detach();
    while (idle < 32) sleep();
    std::_Exit(0);
}
