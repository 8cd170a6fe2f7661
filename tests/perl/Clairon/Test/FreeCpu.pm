# Clairon::Test::FreeCpu: delays a test that the harness runs while the CPUs are busy with others.
#
#   use Clairon::Test::FreeCpu;      # before large modules
#
# Tests mostly wait, so the harness runs more files than there are CPUs. With more runnable processes than CPUs, all
# tests together need more CPU time, and waits end in timeouts.
package Clairon::Test::FreeCpu;

use strict;
use warnings;

use Time::HiRes qw(sleep);

use constant { SAMPLES => 5, PAUSE => 0.06, SECONDS => 30 };

# The runnable processes without this one (proc_loadavg(5)).
sub runnable
{
    my $sum = 0;
    for (1 .. SAMPLES)
    {
        open my $file, '<', '/proc/loadavg' or return 0;
        my ($count) = <$file> =~ m{ (\d+)/} or return 0;
        $sum += $count - 1;
        sleep PAUSE;
    }
    return $sum / SAMPLES;
}

sub cpus { my ($count) = `nproc` =~ /(\d+)/; return $count // 1 }

sub wait_for_cpu
{
    my $cpus     = cpus();
    my $deadline = time + SECONDS;
    sleep rand 1 while runnable() > $cpus && time < $deadline;
    return;
}

wait_for_cpu() if $ENV{HARNESS_ACTIVE};

1;
