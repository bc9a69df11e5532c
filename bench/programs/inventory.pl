# SPDX-License-Identifier: Apache-2.0
# Hashes of hashes and lists that grow, change and shrink, as in a stock list that is kept in memory.
use strict;
use warnings;
srand 99;
my (%stock, %names, @log);
my $rounds = shift // 12;
for my $round (1 .. $rounds) {
    for (1 .. 6_000) {
        my $id = int(rand() ** 2 * 25_000);
        my $item = $stock{$id} //= {name => "item $id", places => {}, history => []};
        $item->{places}{'shelf ' . int rand 40} += 1 + int rand 9;
        push @{$item->{history}}, "round $round: " . join ',', map { int rand 1000 } 0 .. rand 6;
        shift @{$item->{history}} if @{$item->{history}} > 12;
        $names{$_}{$id}++ for map { substr $item->{name} . $round, $_, 4 } 0 .. 3;
    }
    push @log, join ' ', map { "$_=" . scalar keys %{$stock{$_}{places}} } grep { $stock{$_} } map { $_ * 7 } 1 .. 300;
    if ($round % 4 == 0) {    # what has been sold out goes
        delete @stock{grep { $_ % 3 == $round / 4 % 3 } keys %stock};
        %names = ();
    }
}
my @sorted = sort { $a->{name} cmp $b->{name} } values %stock;
my $text = join "\n", map { my $item = $_; join "\t", $item->{name}, map { "$_:$item->{places}{$_}" } sort keys %{$item->{places}} } @sorted;
print scalar @sorted, ' ', length $text, ' ', length "@log", "\n";
