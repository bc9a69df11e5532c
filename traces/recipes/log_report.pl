# SPDX-License-Identifier: Apache-2.0
# Reads a web server's log line by line into hashes of hashes, then sorts, joins and prints a report.
use strict;
use warnings;
use Data::Dumper;
use List::Util qw(sum max first);
my (%visits, %paths, %words, %hours, $refused);
while (my $line = <>) {
    my ($host, $day, $hour, $request, $status, $bytes, $agent) =
        $line =~ m{^(\S+) \S+ \S+ \[(\d+)/\w+/\d+:(\d+)[^]]*\] "([^"]*)" (\d+) (\d+) "[^"]*" "([^"]*)"} or next;
    my ($method, $url) = split ' ', $request;
    my ($path, $query) = split /\?/, $url, 2;
    push @{$visits{$host}{sprintf '%02d-%02d', $day, $hour}}, {path => $path, status => $status, bytes => $bytes};
    $paths{$path}{$status}++;
    $hours{$hour}{$agent} += $bytes;
    if (defined $query) {
        (my $plain = $query) =~ s/%([0-9A-F]{2})/chr hex $1/ge;
        $words{lc $_}++ for split /\+/, $plain =~ s/^q=//r;
    }
    $refused .= "$host $url\n" if $status >= 404;
    # What is older than a fortnight is summed up and forgotten.
    if ($. % 4000 == 0) {
        for my $host (keys %visits) {
            for my $when (grep { /^(\d\d)-/ && $1 < $day - 14 } keys %{$visits{$host}}) {
                my $gone = delete $visits{$host}{$when};
                $visits{$host}{'old'} = [{path => '*', status => 0, bytes => sum(map { $_->{bytes} } @$gone)}];
            }
        }
    }
}
my @report = map { my $host = $_;
    my @all = map { @$_ } values %{$visits{$host}};
    {host => $host, count => scalar @all, bytes => sum(map { $_->{bytes} } @all), trail => join ' > ', map { $_->{path} } @all}
} sort keys %visits;
for my $row (sort { $b->{bytes} <=> $a->{bytes} || $a->{host} cmp $b->{host} } @report) {
    print join("\t", @$row{qw(host count bytes)}, substr $row->{trail}, 0, 60), "\n";
}
my %tree;
for my $path (sort keys %paths) {
    my $node = \%tree;
    $node = $node->{$_} //= {} for grep { length } split m{/}, $path;
    $node->{'#'} = $paths{$path};
}
$Data::Dumper::Sortkeys = $Data::Dumper::Indent = 1;
my $told = Dumper(\%tree);
my $copy = do { no strict 'vars'; eval $told };
print length $told, ' ', scalar keys %$copy, ' ', length $refused, "\n";
printf "%-12s %d\n", $_, $words{$_} for (sort { $words{$b} <=> $words{$a} || $a cmp $b } keys %words)[0 .. 20];
sleep 2;    # as one that waits for the next line of a log that is being written
