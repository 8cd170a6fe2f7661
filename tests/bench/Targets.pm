# Targets: what the benches aim at and what they reached, kept for one table at the end.
package Targets;

use strict;
use warnings;

# Each bench is a process of its own: they add to one file, BENCH_TARGETS, and targets.pl shows it.
# aim(what, aim, value, whether it is met, a word beside it).
sub aim
{
    my ($what, $aim, $value, $met, $word) = @_;
    return unless $ENV{BENCH_TARGETS};
    open my $file, '>>', $ENV{BENCH_TARGETS} or die "$ENV{BENCH_TARGETS}: $!\n";
    print {$file} join("\t", $what, $aim, $value, $met ? 'met' : 'MISSED', $word // ''), "\n";
    close $file or die "$ENV{BENCH_TARGETS}: $!\n";
    return;
}

1;
