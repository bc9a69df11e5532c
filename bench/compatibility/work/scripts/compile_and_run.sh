# Compiles by the command given, then runs the program.
"$@" -o work
./work
