# Targets: records the targets and results of all benches, for a table at the end.
package Targets;

use strict;
use warnings;

# Each bench is a separate process that appends to the file BENCH_TARGETS, which targets.pl prints.
# record(name, target, value, whether the target is met, remark).
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
