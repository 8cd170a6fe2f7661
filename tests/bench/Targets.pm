# Targets: the benches' targets and results, collected for one table at the end.
package Targets;

use strict;
use warnings;

# Each bench is a separate process and appends to the file BENCH_TARGETS, which targets.pl prints.
# record(name, target, value, whether it is met, remark).
sub record
{
    my ($what, $target, $value, $met, $remark) = @_;
    return unless $ENV{BENCH_TARGETS};
    open my $file, '>>', $ENV{BENCH_TARGETS} or die "$ENV{BENCH_TARGETS}: $!\n";
    print {$file} join("\t", $what, $target, $value, $met ? 'met' : 'MISSED', $remark // ''), "\n";
    close $file or die "$ENV{BENCH_TARGETS}: $!\n";
    return;
}

1;
