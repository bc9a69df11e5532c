# SPDX-License-Identifier: Apache-2.0
use strict; use warnings;
my (%h, @a);
for my $i (1 .. 150_000) { $h{"k" . $i * 7919 % 50_021} .= chr(65 + $i % 26); push @a, $i ^ 0x55; }
my $text = join ",", map { "$_=$h{$_}" } sort keys %h;
print length($text), " ", scalar(@a), "\n";
my $n = 0; $n++ while $text =~ /k(\d+)5=([A-M]+)/g; print "$n\n";
my @sorted = sort { $b <=> $a } @a; print "@sorted[0..4]\n";
pipe(my $r, my $w) or die;
my $pid = fork() // die;
if (!$pid) { close $r; my %mine = map { $_ => $h{$_} } grep { /7$/ } keys %h; undef %h;
             print $w scalar(keys %mine), "\n"; close $w; exit 3 }
close $w; print "child: ", <$r>; waitpid($pid, 0); print $? >> 8, "\n";
print `echo from a shell | tr a-z A-Z`;
