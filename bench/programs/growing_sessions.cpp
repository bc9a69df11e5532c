// SPDX-License-Identifier: Apache-2.0
// A service that never removes a session.
#include <chrono>
#include <map>
#include <string>
#include <thread>

struct Session {
    virtual ~Session() = default;
    char state[1000];
};

static std::map<int, Session *> sessions;

int main() {
    std::string page;
    for (int id = 0;; id++) {
        sessions[id] = new Session;
        page.assign(id % 500 * 100, 'x');
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}
