// SPDX-License-Identifier: Apache-2.0
// glibc 2.34 moved functions into libc.so.6 and gave them a new version there, beside the old one; since 2.38 its headers
// have others called by new names. What is linked with either does not start under an older C library (--alloc NAME@LOADER).
// Here the old ones are called: CMake gives the names and has the linker wrap them. This is one object, without link-time
// optimization, because that loses .symver.
#if defined __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#define JUMP_TO(name) "jmp *" name "@GOTPCREL(%rip)\n"
#elif defined __aarch64__
#define FIRST_VERSION "GLIBC_2.17"
#define JUMP_TO(name) "b " name "\n"
#endif

#define WRAP(name, function)                                                                                 \
    __asm__(".symver first_" #name ", " #function "@" FIRST_VERSION "\n"                                     \
            ".globl __wrap_" #name "\n"                                                                      \
            ".hidden __wrap_" #name "\n"                                                                     \
            ".type __wrap_" #name ", %function\n"                                                            \
            "__wrap_" #name ": " JUMP_TO("first_" #name));
#define MOVED(name)   WRAP(name, name)
#define RENAMED(name) WRAP(__isoc23_##name, name)
FUNCTIONS
