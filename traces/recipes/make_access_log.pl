# SPDX-License-Identifier: Apache-2.0
# Prints a web server's log of so many lines, always the same.
use strict;
use warnings;
srand 4711;
my @agents = ('Mozilla/5.0 (X11; Linux x86_64)', 'curl/7.88.1', 'Robot/2.1 (+http://robot.invalid/about)', 'Reader');
for my $line (1 .. $ARGV[0]) {
    my $path = join '/', '', map { ('list', 'item', 'find', 'basket')[rand 4] . int(rand() ** 3 * 40) } 0 .. rand 3;
    $path .= '?q=' . join '+', map { sprintf '%%%02X%c', 32 + rand 90, 97 + rand 26 } 0 .. rand 4 if rand() < 0.3;
    printf qq(10.%d.%d.%d - - [%02d/Jan/2020:%02d:%02d:%02d +0000] "GET %s HTTP/1.1" %d %d "-" "%s"\n),
        rand(4), rand() ** 2 * 40, rand(20), 1 + $line * 27 / $ARGV[0], rand 24, rand 60, rand 60, $path,
        (200, 200, 200, 304, 404, 500)[rand 6], 200 + rand() ** 4 * 90_000, $agents[rand @agents];
}
