// SPDX-License-Identifier: Apache-2.0
// The C++ library that c_opens_cxx opens: operator new and delete, an exception, a container.
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" void count_for_plugin_size(size_t size);

enum { SIZE_NEW = 7630, SIZE_ARRAY, SIZE_NOTHROW };

extern "C" __attribute__((visibility("default"))) int plugin_run() {
    int thrown = 0;
    for (int i = 0; i < 100; i++) {
        void *volatile one = ::operator new(SIZE_NEW);
        count_for_plugin_size(SIZE_NEW);
        ::operator delete(one);
        char *volatile many = new char[SIZE_ARRAY];
        count_for_plugin_size(SIZE_ARRAY);
        delete[] many;
        void *volatile quiet = ::operator new(SIZE_NOTHROW, std::nothrow);
        count_for_plugin_size(SIZE_NOTHROW);
        ::operator delete(quiet, std::nothrow);
    }
    try {
        (void)std::vector<int>().at(1);
    } catch (const std::out_of_range &) {
        thrown++;
    }
    try {
        void *volatile impossible = ::operator new(~size_t(0) / 4);
        ::operator delete(impossible);
    } catch (const std::bad_alloc &) {
        thrown++;
    }
    std::vector<std::string> words(50, std::string(100, 'x'));
    return thrown + static_cast<int>(words.size()) / 10;
}
