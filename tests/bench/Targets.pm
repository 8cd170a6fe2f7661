# Targets: the benches' targets and results, collected for one table at the end.
package Targets;

use strict;
use warnings;

# Each bench is a separate process. All append to one file, BENCH_TARGETS, which targets.pl prints.
# aim(name, target, value, whether it is met, remark).
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
